//! APR: the specified layout, and the layouts that its tools write. Six layouts use the letters `APR`:
//!
//! | first bytes | layout | file |
//! | --- | --- | --- |
//! | `APR2` | the specification's APR v2, a 32-byte header | `draft` |
//! | `APR2` or `APR\0` | APR v2 as `aprender` and `apr-format` write it, a 64-byte header | `shipped` |
//! | `APR2` or `APR\0` | a compressed wrapper around an APR1 file | `wrapper` |
//! | `APR1` | JSON metadata, a JSON index, F32 tensors | `apr1` |
//! | `APRN` | MessagePack metadata and one serialized Rust value | `aprn` |
//! | `{` | a manifest of several files, with the keys of the specification or of `apr-format` | `manifest` |
//!
//! Sources: APR-FORMAT-002; the crates `aprender` 0.19 to 0.27 and `apr-format` 0.60 to 0.72.

mod apr1;
mod aprn;
mod blocks;
mod compressed;
#[cfg_attr(not(writes), allow(dead_code, reason = "some constants are those of the writer"))]
mod draft;
mod ggml_types;
mod head;
mod layout;
mod manifest;
mod sections;
mod shipped;
mod wrapper;
#[cfg(writes)]
mod write;

pub(crate) use manifest::{is_manifest, parse_manifest};

use super::entry::{Detection, Format, ManifestParser, ParseDocument, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: head::NAME,
    title: "APR v2 and earlier APR layouts",
    extensions: &[".apr"],
    versions: &["1", "1.0", "2.0"],
    checksums: &["crc32"],
    parser: Parser {
        checksums: layout::checksums,
        check_tail: layout::check_tail,
        manifest: Some(ManifestParser {
            recognises: is_manifest,
            parse: ParseDocument::Manifest(parse_manifest),
            extensions: &[".apr"],
            names: &[],
        }),
        ..Parser::new(Detection::Magic(&[b"APR2", b"APR\0", b"APR1", b"APRN"]), layout::parse)
    },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, not(any(web, miri))))]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
