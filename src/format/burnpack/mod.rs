//! Burnpack, the files of the Burn framework: a 10-byte header, CBOR that describes the tensors, then their data.
//!
//! Source: the crates `burn-store` 0.19 to 0.21 and `burn-pack` 0.22, which all write version 1. They differ:
//! 0.19 writes the data right behind the CBOR and without gaps; later ones align it, and each tensor in it, to 256
//! bytes. Nothing in the file says which: see `data_start`. What a dtype of theirs says beyond ours (a
//! quantization scheme, the width of a Bool) is kept as the attribute `dtype`, and the parameter's id as `param_id`.
//! Typed scalars (since 0.22) stand in the metadata under `scalars`, as the file has them: `{"epoch": {"UInt": 3}}`.

mod parse;
#[cfg(all(feature = "write", not(target_arch = "wasm32")))]
mod write;

pub use parse::{ALIGNMENT, HEADER_BYTES, MAGIC, MAX_CBOR_BYTES};

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "Burnpack",
    extensions: &[".bpk", ".burnpack"],
    versions: &["1"],
    checksums: &[],
    parser: Parser::new(Detection::Magic(&[&MAGIC]), parse::parse),
    #[cfg(all(feature = "write", not(target_arch = "wasm32")))]
    writer: Some(write::WRITER),
};

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
