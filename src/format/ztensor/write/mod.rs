//! Writes zTensor 1.2, and 1.0 and 1.1 if they are requested, like the crate and the Python package `ztensor` of these
//! versions, byte for byte for uncompressed files: the blobs in order, then the manifest, so that a file is written
//! sequentially.
//!
//! Any layout is written as it was read, with all of its components; attributes and metadata keep their JSON types.
//! Where 1.2 leaves a choice, the writer follows [`format::ztensor`](crate::format::ztensor):
//!
//! - Quantized tensors of ggml dtypes have the layout `gguf.<type>/1`, which the registry of version 2 defines: the
//!   shape of the tensor, and the same blocks as in GGUF in `data`. Tools that do not know the layout list the tensors
//!   and return the bytes.
//! - F8_E8M0 and F4 have the types of that registry. A dtype of unknown size is stored as bytes, with its name as the
//!   type.
//! - Zstandard frames state the length of their content if it is known in advance, and have no checksum: the digest
//!   covers the stored bytes.

mod byte_streams;
mod file;
mod manifest;
mod shards;
mod target;
mod version;
mod zstd;

use crate::output::writer::{Compression, DigestAlgorithm, Writer};

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[Compression::Zstd],
    digests: &[DigestAlgorithm::Crc32c, DigestAlgorithm::Sha256],
    alignments: &[64, 128, 256, 512, 1024, 2048, 4096],
    shards: true,
    versions: version::Version::NAMES,
    metadata_first: false,
    vocabulary: false,
    describe: None,
    new: |settings, _| Ok(Box::new(target::ZTensor::new(settings))),
};

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
