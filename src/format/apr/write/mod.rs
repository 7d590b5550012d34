//! Writes APR v2 as its specification (APR-FORMAT-002) lays it out, with the readings that
//! [`format::apr`](crate::format::apr) documents.
//!
//! Of what the specification leaves open: the data section begins aligned, as does every tensor in it. A
//! scalar has no dimensions (the specification says 1 to 8; a shape of `[1]` would be another tensor).
//! A compressed tensor has bit 0 of its flags set, and a `raw_size`; one that LZ4 would make no smaller is
//! stored raw. Only the first file of several has the whole metadata, the others have the required keys.

mod file;
mod lz4;
mod metadata;
mod target;

use crate::output::writer::{Compression, Writer};

/// How the format is written.
pub(super) const WRITER: Writer = Writer {
    compressions: &[Compression::Lz4],
    digests: &[],
    alignments: &[64, 32],
    shards: true,
    new: |settings, _| Ok(Box::new(target::Apr::new(settings)?)),
};
