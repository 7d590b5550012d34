//! GGUF 1 to 3, little- and big-endian: a head of typed metadata and tensor infos, then aligned tensors; and
//! models in several such files (`x-00001-of-00003.gguf`).
//!
//! Source: the GGUF specification in ggml's `docs/gguf.md`, and what its writers do. Version 1 counts in
//! 32 bits where the later ones count in 64. Nothing says how long the head is, and a vocabulary makes it
//! megabytes: the parser asks for twice what it has. Shapes stand in the file with the innermost dimension
//! first and are turned round here. A tensor of a type that is not in the table reaches up to the next one.
//! In big-endian files the blocks of quantized types cannot be turned without taking them apart: they are
//! listed under their name with `_BE` and load as stored.

mod head;
mod metadata;
mod parse;

pub use head::MAX_HEAD_BYTES;
pub use parse::{MAGIC, MAX_DIMS};

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "GGUF",
    extensions: &[".gguf"],
    versions: &["1", "2", "3"],
    checksums: &[],
    parser: Parser::new(Detection::Magic(&[&MAGIC]), parse::parse),
    #[cfg(all(feature = "write", not(target_arch = "wasm32")))]
    writer: None,
};

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
