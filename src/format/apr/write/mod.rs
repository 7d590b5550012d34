//! Writes APR v2 as specified in APR-FORMAT-002, with the interpretations that [`format::apr`](crate::format::apr)
//! documents.
//!
//! The specification leaves these choices to the writer: the data section begins aligned, as does every tensor in it.
//! A scalar has no dimensions (the specification says 1 to 8; a shape of `[1]` would be a different tensor). A
//! compressed tensor has bit 0 of its flags set, and a `raw_size`; a tensor that LZ4 does not make smaller is stored
//! raw. Only the first file of several has the whole metadata; the others have only the required keys.
//!
//! Dtypes that only ggml has are an extension: see `ggml_types`.

mod blocks;
mod file;
mod ggml_types;
mod lz4;
mod metadata;
mod target;

use crate::output::writer::{Compression, Writer};

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[Compression::Lz4],
    digests: &[],
    alignments: &[64, 32],
    shards: true,
    versions: &[],
    metadata_first: false,
    vocabulary: true,
    describe: None,
    new: |settings, _| Ok(Box::new(target::Apr::new(settings)?)),
};
