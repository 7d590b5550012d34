//! File formats: one folder each, with parser, writer and tests, and one entry each in the registry.
//!
//! A [`Format`] says how its files are recognised, read and written. Everything that depends on the list of formats is
//! derived from the registry: detection, the options of `weightstream convert`, the table of formats in the README, the
//! size report, the fuzz targets. Parsers do no I/O; writers write through `output`.
//!
//! # Adding a format
//!
//! For a format called `foo`:
//!
//! 1. Create the folder `src/format/foo/`. Its `mod.rs` documents the format and its sources, and defines
//!    `pub const FORMAT: Format`: name, title, extensions, versions, checksums, parser, writer.
//! 2. Write the parser, for example in `parse.rs`: a function from a [`Window`] to a [`Parsed`]. It reads as if the
//!    whole file were in memory: `window.get(range)?` returns the bytes, or stops the parse until they are fetched.
//!    Check offsets, counts and lengths before anything is allocated: the memory budget in `values::budget` covers the
//!    index and the metadata, and the readers in `values` for JSON, CBOR and MessagePack draw on it. If models may be
//!    in several files, add a manifest parser, or return [`Parsed::Part`] for files that name each other.
//! 3. If the format is written, implement the traits `Target` and `TensorFile` of `output::target`, for example in
//!    `write.rs`, and `Sharded` if models may be in several files. Define `pub(super) const WRITER: Writer`: the values
//!    of `--compress`, `--digest` and `--align` that it takes, and its constructor. Writers exist natively only.
//! 4. Test it in `tests.rs`. Put files of the format's own tools, each with its `.expected.json`, into
//!    `tests/fixtures/foo/`, and list them in `tests/fixtures/INDEX.json`: the tests of all formats read them from
//!    there.
//! 5. Add `pub mod foo;` with its `cfg` and the line of the registry below, and in `Cargo.toml` the feature `foo`,
//!    which is also an entry of the feature `formats`.
//! 6. Update the table in the README: `UPDATE_README=1 cargo test --test write readme`.
//!
//! `cargo test` then converts to and from the format, damages its files and compares the README;
//! `cargo xtask fuzz foo` fuzzes its parser, `cargo xtask build` reports its size.

mod checksum;
mod entry;
mod ggml;
pub(crate) mod values;

#[cfg(feature = "aero")]
pub mod aero;
#[cfg(feature = "apr")]
pub mod apr;
#[cfg(feature = "burnpack")]
pub mod burnpack;
#[cfg(feature = "embd")]
pub mod embd;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "safetensors")]
pub mod safetensors;
#[cfg(feature = "ztensor")]
pub mod ztensor;

pub use checksum::{Stated, StretchChecksum};
pub use entry::Format;

use crate::codec::pages::Pages;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{MAX_PARTS, Manifest, PageTable, Parsed};
use crate::window::{Stop, Window};
use entry::{Detection, Parser};
use values::{budget::Budget, json};

/// Lists the formats, each as the feature that it needs and its module.
///
/// `PARSERS` has what reading takes. It is apart from `FORMATS`, so that the descriptions are not part of a module for
/// browsers, which needs none of them.
macro_rules! registry {
    ($($feature:tt => $module:ident,)*) => {
        static FORMATS: &[Format] = &[$(#[cfg(feature = $feature)] $module::FORMAT,)*];
        static PARSERS: &[Parser] = &[$(#[cfg(feature = $feature)] $module::FORMAT.parser,)*];
    };
}

registry! {
    "aero" => aero,
    "apr" => apr,
    "burnpack" => burnpack,
    "embd" => embd,
    "gguf" => gguf,
    "safetensors" => safetensors,
    "ztensor" => ztensor,
}

/// JSON documents that name the files of a model, of any format. They are tried last.
static MANIFEST: Parser = Parser::new(Detection::Heuristic(begins_an_object), parse_manifest);

/// Magics and first fields fit in this many bytes.
pub const SNIFF_BYTES: u64 = 16;

/// A document that names the files of a model is read whole; one for 100,000 tensors has some 10 MB.
/// Stops a manifest that would fill the memory.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// The formats that this build reads.
///
/// ```
/// # #[cfg(feature = "ztensor")] {
/// let formats = weightstream::format::formats();
/// let ztensor = formats.iter().find(|format| format.name == "ztensor").unwrap();
/// assert_eq!((ztensor.title, ztensor.extensions), ("zTensor", &[".zt", ".ztensor"][..]));
/// # }
/// ```
pub fn formats() -> &'static [Format] {
    FORMATS
}

/// The format of a file that begins with `head`: its first [`SNIFF_BYTES`], or the whole of a shorter file. `None` for
/// unknown bytes, and for a JSON manifest.
pub fn detect(head: &[u8]) -> Option<&'static Format> {
    position(head).and_then(|at| FORMATS.get(at))
}

/// Reads the file's header and index.
///
/// ```
/// # #[cfg(feature = "safetensors")] {
/// use weightstream::index::Parsed;
/// use weightstream::internals::{format, window::{Stop, Window}};
///
/// let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
/// let mut window = Window::new(Some(file.len() as u64));
/// let index = loop {
///     match format::parse(&window) {
///         Ok(Parsed::File(index)) => break index,
///         Err(Stop::Need(range)) => window.insert(range.start, &file[range.start as usize..range.end as usize]),
///         other => panic!("{other:?}"),
///     }
/// };
/// assert_eq!((index.format, index.tensors[0].shape.as_slice()), ("safetensors", &[2][..]));
/// # }
/// ```
///
/// # Errors
/// [`Stop::Need`] until the bytes are there; `UNSUPPORTED` for bytes of no format that weightstream reads; what is
/// wrong with the file otherwise.
#[doc(hidden)]
pub fn parse(window: &Window) -> Result<Parsed, Stop> {
    (parser_of(window)?.parse)(window)
}

/// The checksums that cover stretches of the file: empty if its format has none.
///
/// # Errors
/// As for [`parse`].
#[doc(hidden)]
pub fn checksums(window: &Window) -> Result<Vec<StretchChecksum>, Stop> {
    (parser_of(window)?.checksums)(window)
}

/// Checks the marks at the end of the file, if its format has any: a truncated file lacks them.
///
/// # Errors
/// `TRUNCATED` where the file does not end with them; as for [`parse`] otherwise.
#[doc(hidden)]
pub fn check_tail(window: &Window) -> Result<(), Stop> {
    (parser_of(window)?.check_tail)(window)
}

/// Reads the digests of a component's pages ([`Component::pages`](crate::index::Component::pages)).
///
/// # Errors
/// As for [`parse`].
#[doc(hidden)]
pub fn page_digests(window: &Window, table: &PageTable) -> Result<Pages, Stop> {
    (parser_of(window)?.page_digests)(window, table)
}

fn parser_of(window: &Window) -> Result<&'static Parser, Stop> {
    let sniff_end = window.file_length().unwrap_or(SNIFF_BYTES).min(SNIFF_BYTES);
    let head = window.get(0..sniff_end)?;
    let manifest = || begins_an_object(head).then_some(&MANIFEST);
    let parser = position(head).and_then(|at| PARSERS.get(at)).or_else(manifest);
    parser.ok_or_else(|| unrecognised(head).into())
}

/// Where in the registry the format of a file is that begins like this.
fn position(head: &[u8]) -> Option<usize> {
    let has_magic = |parser: &Parser| match parser.detection {
        Detection::Magic(magics) => magics.iter().any(|magic| head.starts_with(magic)),
        Detection::Heuristic(_) => false,
    };
    let looks_alike = |parser: &Parser| match parser.detection {
        Detection::Magic(_) => false,
        Detection::Heuristic(recognises) => recognises(head),
    };
    PARSERS.iter().position(has_magic).or_else(|| PARSERS.iter().position(looks_alike))
}

/// Whether the file is a JSON object. No binary format begins like one: SafeTensors has NULs in its first 8 bytes.
fn begins_an_object(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{") && !head.contains(&0)
}

fn parse_manifest(window: &Window) -> Result<Parsed, Stop> {
    let bytes = window.get_all(MAX_MANIFEST_BYTES)?;
    let document = json::parse_object(bytes, 0, "the manifest", &mut Budget::of(window, bytes.len() as u64))?;
    let mut manifests = PARSERS.iter().filter_map(|parser| parser.manifest.as_ref());
    match manifests.find(|manifest| (manifest.recognises)(&document)) {
        Some(manifest) => Ok(Parsed::Manifest(check_parts((manifest.parse)(&document)?)?)),
        None => {
            let what = "this is a JSON file, but not one that names the files of a model";
            Err(Error::new(ErrorKind::Unsupported, what).into())
        }
    }
}

fn check_parts(manifest: Manifest) -> Result<Manifest> {
    let count = manifest.parts.len() as u64;
    if count > MAX_PARTS {
        let what = format!("the manifest names {count} files; weightstream takes {MAX_PARTS}");
        return Err(Error::new(ErrorKind::Limit, what).advise("Write the model in fewer, larger files."));
    }
    Ok(manifest)
}

fn unrecognised(head: &[u8]) -> Error {
    let shown: String = head.iter().take(8).map(|byte| byte.escape_ascii().to_string()).collect();
    let error = match head {
        [] => Error::new(ErrorKind::Truncated, "the file is empty"),
        _ if head.trim_ascii_start().starts_with(b"<") => {
            let what = format!("this is a web page (it begins with `{shown}`), not a model");
            return Error::new(ErrorKind::Unsupported, what)
                .at(0..head.len() as u64)
                .advise("Check the URL: the server may have answered with an error page or a log-in page.");
        }
        _ => Error::new(ErrorKind::Unsupported, format!("no known model format begins with `{shown}`")),
    };
    error.at(0..head.len() as u64)
}
