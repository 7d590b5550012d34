//! Burnpack, the file format of the Burn framework: a 10-byte header, CBOR that describes the tensors, then their data.
//!
//! Source: the crates `burn-store` 0.19 to 0.21 and `burn-pack` 0.22, which all write version 1. They differ: 0.19
//! writes the data directly after the CBOR and without gaps; later releases align the data, and each tensor in it, to
//! 256 bytes. The file does not state its alignment: see `data_start`. Details of a dtype that
//! [`Dtype`](crate::dtype::Dtype) does not represent (a quantization scheme, the width of a Bool) are kept as the
//! attribute `dtype`, and the parameter's id as `param_id`. Typed scalars (since 0.22) are stored in the metadata under
//! `scalars` in their file representation: `{"epoch": {"UInt": 3}}`.

mod parse;
#[cfg(writes)]
mod write;

pub(crate) use parse::MAGIC;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "Burnpack",
    extensions: &[".bpk", ".burnpack"],
    versions: &["1"],
    checksums: &[],
    parser: Parser::new(Detection::Magic(&[&MAGIC]), parse::parse).deferred(),
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, native))]
mod tests;
