//! MLC and TVM: a `tensor-cache.json`, formerly `ndarray-cache.json`, that lists the parameters, and files of raw bytes
//! beside it.
//!
//! Source: `artifact_cache.ts` and `runtime.ts` of the npm package `@mlc-ai/web-runtime` 0.27, which web-llm uses. Each
//! record is a file, and has a record for each parameter in it. Parameters in the format `f32-to-bf16` state `float32`,
//! but are stored as BF16, which has the same values: they are listed as BF16. The MD5 of a file (`md5sum`) is not
//! compared, because it does not protect from tampering.

mod parse;

pub(crate) use parse::is_manifest;

use super::entry::{Detection, Format, ManifestParser, ParseDocument, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "MLC",
    extensions: &[".json"],
    versions: &["1"],
    checksums: &[],
    parser: Parser {
        manifest: Some(ManifestParser {
            recognises: is_manifest,
            parse: ParseDocument::Tensors(parse::parse),
            extensions: &[],
            names: &["tensor-cache.json", "ndarray-cache.json"],
        }),
        ..Parser::new(Detection::Document, parse::parse_file).in_containers()
    },
    #[cfg(writes)]
    writer: None,
};

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
