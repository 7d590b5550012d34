//! Writes AERO 0.1, and AEROSET for a model in several files.
//!
//! The specification leaves these choices to the writer:
//! - Tensors begin at multiples of 64 bytes, in their shard and in the file, unless the caller chooses another
//!   alignment; the format's own tools leave no gaps (`--align 1`).
//! - A shard (WTSH) ends before the tensor that would make it longer than 2 GiB. The format has no such limit, but its
//!   tools do the same, and one of them maps a shard whole.
//! - All chunks except the shards come first, in this order: IHSH, MJSN, MMSG, TIDX, then PHSH. Their lengths are known
//!   before the first tensor is read, because digests have a fixed length. Tensors are therefore streamed, and this
//!   head is written last. PHSH precedes its shard, so that a reader that streams a file from its start can verify
//!   each page when it arrives. These chunks are not compressed: the compressed length of a chunk with digests is known
//!   only when the digests are.
//! - The optional chunks IHSH and PHSH are always written, except PHSH of an empty shard: the tools reject an empty
//!   list of pages. `hash_b3` is omitted if tensor digests are disabled.
//! - The UUID is derived from the digests of the chunks: the same content has the same UUID.
//! - Tensors in ggml blocks are packed tensors, as the GGUF converter writes them: `quant_params` names the type, and
//!   MJSN contains `quant_descriptors`. Shapes are row-major, except if the metadata names GGUF as the source: readers,
//!   including this crate, then expect the innermost dimension first.
//! - `model` of the manifest MMSG is taken from the metadata, if present, and is read as metadata again.
//! - In a set, the manifest and the index number shards across all files, and each file from 0, as the tools do. The
//!   first file has all of the metadata. The index has no `hash_b3`, because the files have it.

mod contents;
mod file;
mod head;
mod index;
mod layout;
mod metadata;
mod msgpack;
mod quantization;
mod set;
mod target;

use crate::output::writer::{DigestAlgorithm, Writer};

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[DigestAlgorithm::Blake3],
    alignments: &[64, 1, 8, 16, 32, 128, 256, 512, 4096],
    shards: true,
    versions: &[],
    metadata_first: false,
    vocabulary: false,
    describe: None,
    new: |settings, _| Ok(Box::new(target::Aero::new(settings))),
};

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
