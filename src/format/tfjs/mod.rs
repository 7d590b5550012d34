//! TensorFlow.js: a `model.json` that lists the weights, and files of raw bytes beside it.
//!
//! Source: `io/weights_loader.ts`, `io/io_utils.ts` and `io/types.ts` of the npm package `@tensorflow/tfjs-core` 4.22,
//! and the converter of the Python package `tensorflowjs` 4.22. `weightsManifest` has groups of weights. The bytes of a
//! group's weights follow each other without padding, in the files that `paths` names, which together are one sequence
//! of bytes: converters end a file after 4 MiB, at any byte.
//!
//! Weights that are quantized to `uint8` and `uint16` are listed with that dtype, and `quantization` in their
//! attributes; those that are quantized to `float16` are listed as F16, which loses nothing. Texts have no length but
//! in their bytes, so they and the weights behind them in their group are not listed, which is a warning. All other
//! keys of the document are the metadata.

mod dtypes;
mod parse;
#[cfg(writes)]
mod write;

pub(crate) use parse::is_manifest;

use super::entry::{Detection, Format, ManifestParser, ParseDocument, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "TensorFlow.js",
    extensions: &[".json"],
    versions: &["1"],
    checksums: &[],
    parser: Parser {
        manifest: Some(ManifestParser {
            recognises: is_manifest,
            parse: ParseDocument::Tensors(parse::parse),
            extensions: &[],
            names: &["model.json"],
        }),
        ..Parser::new(Detection::Document, parse::parse_file).in_containers()
    },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
