//! SafeTensors: a u64 length, a JSON header of that length, then the tensors without a gap.
//!
//! Source: the `safetensors` package 0.8 and its documentation. Where the documentation is incomplete, this parser
//! accepts what the package's reader accepts: white space around the header, any alignment, names in any order, unknown
//! keys of a tensor. It differs in two points: it rejects duplicate names, and lists tensors of an unknown dtype, which
//! load as raw bytes.

mod cursor;
mod entry;
mod header;
pub(crate) mod layout;
mod parse;
#[cfg(writes)]
mod write;

pub(crate) use parse::{is_manifest, parse_manifest};

use super::entry::{Detection, Format, ManifestParser, ParseDocument, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "SafeTensors",
    extensions: &[".safetensors"],
    versions: &["1"],
    checksums: &[],
    parser: Parser {
        manifest: Some(ManifestParser {
            recognises: is_manifest,
            parse: ParseDocument::Manifest(parse_manifest),
            extensions: &[],
            names: &[],
        }),
        ..Parser::new(Detection::Heuristic(parse::recognises), parse::parse)
    },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod pieces_tests;
