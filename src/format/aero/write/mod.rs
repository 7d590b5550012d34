//! Writes AERO 0.1, and AEROSET for a model in several files.
//!
//! Of what the specification leaves open:
//! - Tensors begin at multiples of 64 bytes, in their shard and in the file, unless the caller wants it otherwise; the
//!   format's own tools leave no gaps (`--align 1`).
//! - A shard (WTSH) ends before the tensor that would make it longer than 2 GiB: no limit of the format, but what its
//!   tools do, one of which maps a shard whole.
//! - All chunks but the shards come first, in this order: IHSH, MJSN, MMSG, TIDX, then PHSH. Their lengths are known
//!   before the first tensor is read, since digests have a fixed length; so the tensors stream, and this head is
//!   written last. PHSH lies before the shard that it is for, so that whoever reads a file from its start can check
//!   pages as they come. For the same reason none of them is compressed, as all of them may be stored raw: how long a
//!   chunk with digests becomes under Zstandard is known only when they are.
//! - IHSH and PHSH, which are optional, are always there, but for a shard without bytes: the tools refuse an empty
//!   list of pages. `hash_b3` is left out if no digest of tensors is wanted.
//! - The UUID is made of the digests of the chunks: the same content has the same one.
//! - Tensors in blocks of ggml are packed tensors, as the converter of GGUF writes them: `quant_params` names the type,
//!   and `quant_descriptors` stand in MJSN. Shapes are row-major, except where the metadata says that the source was
//!   GGUF: readers, ours too, then expect the innermost dimension first.
//! - `model` of the manifest MMSG comes out of the metadata, if it says something there, and is read as metadata again.
//! - In a set, shards are numbered over all files in the set and its index, but from 0 in each file, as the tools do.
//!   The first file has all of the metadata. The index has no `hash_b3`: the files have them.

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

/// How the format is written.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[DigestAlgorithm::Blake3],
    alignments: &[64, 1, 8, 16, 32, 128, 256, 512, 4096],
    shards: true,
    new: |settings, _| Ok(Box::new(target::Aero::new(settings))),
};

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
