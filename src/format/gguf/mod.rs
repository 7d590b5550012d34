//! GGUF 1 to 3, little- and big-endian: a head of typed metadata and tensor infos, then aligned tensors; and
//! models in several such files (`x-00001-of-00003.gguf`).
//!
//! Source: the GGUF specification in ggml's `docs/gguf.md`, and its writers. Version 1 has 32-bit counts, later
//! versions have 64-bit counts. The file does not state the length of the head, which takes megabytes with a
//! vocabulary: the parser requests twice the bytes that it has. Shapes in the file have the innermost dimension first;
//! the parser reverses them. A tensor of an unknown type extends to the next tensor. The byte order of quantized blocks
//! in big-endian files cannot be converted without decoding them: these tensors are listed under their dtype name with
//! `_BE`, and load as stored.

mod head;
mod metadata;
mod parse;
#[cfg(writes)]
mod write;

#[cfg(writes)]
pub(crate) use head::MAX_HEAD_BYTES;
pub(crate) use parse::MAGIC;
#[cfg(writes)]
pub(crate) use parse::MAX_DIMS;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "GGUF",
    extensions: &[".gguf"],
    versions: &["1", "2", "3"],
    checksums: &[],
    parser: Parser { is_split_by_number: true, ..Parser::new(Detection::Magic(&[&MAGIC]), parse::parse) },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, native))]
mod tests;
