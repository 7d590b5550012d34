//! EMBD, the `.weights` files of `cpp_embedder`: the layout of its specification, and the layout that its tools write.
//!
//! The specification (binary weight format 1.0) has a header, metadata, a vocabulary, an index and checksums. The tools
//! (`tools/convert_weights.py`, `src/model/weights.cpp`) never implemented it. Their files contain a count, then the
//! tensors, each preceded by its name and shape, then a vocabulary. Both layouts begin with the same 8 bytes. A file
//! has the specification's layout if the CRC in its header matches; see `layout` for details.
//!
//! In both cases the metadata contains the vocabulary as `vocabulary`: its `tokens` by id, and `special_tokens` if the
//! file has them.

mod layout;
mod parts;
mod sequential;
mod specified;
#[cfg(writes)]
mod write;

pub(crate) use parts::MAGIC;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parts::NAME,
    title: "EMBD `.weights`",
    extensions: &[".weights", ".embd"],
    versions: &["1", "1.0"],
    checksums: &["crc32"],
    parser: Parser {
        checksums: layout::checksums,
        check_tail: layout::check_tail,
        ..Parser::new(Detection::Magic(&[&MAGIC]), layout::parse).deferred()
    },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, native))]
mod tests;
