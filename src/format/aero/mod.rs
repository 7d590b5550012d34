//! AERO 0.1: a table of contents, the chunks that it lists (metadata, an index of tensors, shards of weights), and
//! AEROSET, a manifest of several such files.
//!
//! Sources: the specification of AERO 0.1, and `aerotensor` 0.2. Files written by `aerotensor` differ from the
//! specification: the JSON metadata contains the descriptors of packed tensors; tensors inside a shard are not aligned;
//! shapes of models from GGUF have the innermost dimension first (the parser reverses them); a chunk may have a digest
//! of zeros, which the parser treats as no digest. Unknown chunks, flags and fields are ignored.

mod integrity;
mod parse;
mod set;
mod tensors;
mod toc;
#[cfg(writes)]
mod write;

pub(crate) use set::{is_manifest, parse_manifest};
pub(crate) use toc::MAGIC;

use super::entry::{Detection, Format, ManifestParser, ParseDocument, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: toc::NAME,
    title: "AERO and AEROSET",
    extensions: &[".aero", ".aeroset"],
    versions: &["0.1"],
    checksums: &["blake3", "sha256"],
    parser: Parser {
        checksums: parse::checksums,
        page_digests: integrity::page_digests,
        manifest: Some(ManifestParser {
            recognises: is_manifest,
            parse: ParseDocument::Manifest(parse_manifest),
            extensions: &[".aeroset"],
            names: &[],
        }),
        ..Parser::new(Detection::Magic(&[&MAGIC]), parse::parse).deferred()
    },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
