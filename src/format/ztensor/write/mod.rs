//! Writes zTensor 1.2 as the crate and the Python package `ztensor` 1.2.3 do, which is byte for byte where nothing is
//! compressed: blobs one after another, then the manifest, so that a file is written from its start to its end.
//!
//! Any layout is written as it was read, with all of its components; attributes and metadata keep their JSON types.
//! What 1.2 leaves open is settled as [`format::ztensor`](crate::format::ztensor) reads it:
//!
//! - Quantized tensors of ggml's dtypes have the layout `gguf.<type>/1`, which the registry of version 2 defines: their
//!   own shape, and the blocks as GGUF has them in `data`. Tools that do not know it list them and give the bytes.
//! - F8_E8M0 and F4 have the types of that registry. A dtype that weightstream has no size for is stored as bytes, with
//!   its name as the type.
//! - Frames of Zstandard state their content's length where it is known beforehand, and have no checksum: the digest is
//!   over the stored bytes.

mod file;
mod manifest;
mod target;
mod zstd;

use crate::output::writer::{Compression, DigestAlgorithm, Writer};

/// How the format is written.
pub(super) const WRITER: Writer = Writer {
    compressions: &[Compression::Zstd],
    digests: &[DigestAlgorithm::Crc32c, DigestAlgorithm::Sha256],
    alignments: &[64, 128, 256, 512, 1024, 2048, 4096],
    shards: false,
    new: |settings, _| Ok(Box::new(target::ZTensor::new(settings))),
};

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
