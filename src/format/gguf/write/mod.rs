//! Writes GGUF version 3, little-endian, like llama.cpp: metadata and tensor infos, then every tensor padded to the
//! alignment.
//!
//! - Metadata values keep the types of a GGUF source, also through other formats: see [`types`]. Other values get the
//!   types of the Python package `gguf`: u32 for a number (i32 in arrays), f32 for a float, text for an object.
//! - `general.alignment` and the keys of `split` describe a file, not the model. The writer states those of the new
//!   files.
//! - Several files have the names and keys of llama.cpp's `gguf-split`, and no manifest. The first has the metadata.
//! - Tied tensors are written once for each name: ggml requires that tensors follow each other without overlapping.

mod file;
mod metadata;
mod target;
mod types;
mod values;

use super::parse::DEFAULT_ALIGNMENT;
use crate::output::writer::Writer;

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[],
    alignments: &[DEFAULT_ALIGNMENT, 64, 128, 256, 512, 1024, 2048, 4096],
    shards: true,
    versions: &[],
    metadata_first: true,
    vocabulary: true,
    describe: Some(types::describe),
    new: |settings, losses| Ok(Box::new(target::Gguf::new(settings, losses)?)),
};

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
