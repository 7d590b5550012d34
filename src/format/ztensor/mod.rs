//! zTensor: blobs, then a CBOR index at the end of the file. Both ends of the file identify the layout:
//!
//! | head | tail | layout | file |
//! | --- | --- | --- | --- |
//! | `ZTEN0001` | index size | 0.1: a list of tensors, one blob each | `list` |
//! | `ZTEN1000` | manifest size | 1.0: a manifest whose `tensors` have a dtype each | `manifest` |
//! | `ZTEN1000` | manifest size, `ZTEN1000` | 1.1, 1.2: a manifest whose components have a dtype each | `manifest` |
//! | `\x89ZT2\r\n\x1a\n` | footer of 40 bytes | 2: a manifest whose objects have parts, at aligned offsets | `v2` |
//!
//! Sources of 0.1 and 1.x: the specifications 1.0 and 1.2, the registry of version 2 for points that 1.2 leaves open,
//! and the crates and Python packages `ztensor` 0.1 to 1.2. Where they differ, this parser reads: files of 1.0 also
//! begin with the magic; digests cover the stored bytes; offsets that are not multiples of 64 and digests of unknown
//! algorithms only cause warnings; the lengths of raw blobs and the stated decoded lengths of compressed blobs must
//! match dtype and shape; blobs do not overlap.

mod blob;
mod byte_streams;
mod contents;
mod dtypes;
mod list;
mod manifest;
mod parse;
mod v1;
mod v2;
#[cfg(writes)]
mod write;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: contents::NAME,
    title: "zTensor",
    extensions: &[".zt", ".ztensor"],
    versions: &["0.1", "1.0", "1.1.0", "1.2.0", "2"],
    checksums: &["crc32c", "sha256", "xxh3"],
    parser: Parser {
        zero_padding: parse::zero_padding,
        has_weight_map: true,
        ..Parser::new(Detection::Magic(&[&v1::MAGIC_0, &v1::MAGIC_1, &v2::MAGIC]), parse::parse).deferred()
    },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
