//! zTensor: blobs, then a CBOR index of them at the end of the file. Its layouts are told apart by both ends:
//!
//! | head | tail | layout | file |
//! | --- | --- | --- | --- |
//! | `ZTEN0001` | index size | 0.1: a list of tensors, one blob each | `list` |
//! | `ZTEN1000` | manifest size | 1.0: a manifest whose `tensors` have a dtype each | `manifest` |
//! | `ZTEN1000` | manifest size, `ZTEN1000` | 1.1, 1.2: a manifest whose components have a dtype each | `manifest` |
//! | `\x89ZT2\r\n\x1a\n` | footer of 40 bytes | 2: a manifest whose objects have parts, at aligned offsets | `v2` |
//!
//! Sources of 0.1 and 1.x: the specifications 1.0 and 1.2, and the registry of version 2 for what 1.2 leaves open; the
//! crates and Python packages `ztensor` 0.1 to 1.2. What is read where they differ: the magic stands at the start of
//! 1.0 files too; digests are over the stored bytes; offsets that are no multiples of 64 and digests of unknown
//! algorithms are warned of, not refused; lengths of raw and stated ones of compressed blobs must be those of dtype and
//! shape; blobs do not overlap.

mod blob;
mod contents;
mod dtypes;
mod list;
mod manifest;
mod parse;
mod v1;
mod v2;
#[cfg(all(feature = "write", not(target_arch = "wasm32")))]
mod write;

pub use contents::MAX_MANIFEST_BYTES;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: contents::NAME,
    title: "zTensor",
    extensions: &[".zt", ".ztensor"],
    versions: &["0.1", "1.0", "1.1.0", "1.2.0", "2"],
    checksums: &["crc32c", "sha256", "xxh3"],
    parser: Parser::new(Detection::Magic(&[&v1::MAGIC_0, &v1::MAGIC_1, &v2::MAGIC]), parse::parse),
    #[cfg(all(feature = "write", not(target_arch = "wasm32")))]
    writer: Some(write::WRITER),
};

#[cfg(all(test, not(target_arch = "wasm32")))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
