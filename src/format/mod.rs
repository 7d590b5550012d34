//! File formats: one folder each, with parser, writer and tests, and one entry each in the registry.
//!
//! A [`Format`] describes how its files are detected, read and written. Everything that depends on the list of formats
//! is derived from the registry: detection, the options of `weightstream convert`, the table of formats in the README,
//! the size report, the fuzz targets. Parsers do no I/O; writers write through `output`.
//!
//! # Adding a format
//!
//! For a format called `foo`:
//!
//! 1. Create the folder `src/format/foo/`. Its `mod.rs` documents the format and its sources, and defines
//!    `pub const FORMAT: Format`: name, title, extensions, versions, checksums, parser, writer.
//! 2. Write the parser, for example in `parse.rs`: a function from a [`Window`] to a [`Parsed`]. It reads as if the
//!    whole file were in memory: `window.get(range)?` returns the bytes, or stops the parse until they are fetched.
//!    Check offsets, counts and lengths before you allocate memory: the memory budget in `values::budget` limits the
//!    index and the metadata, and the readers in `values` for JSON, CBOR and MessagePack use it. If models may be
//!    in several files, add a manifest parser, or return [`Parsed::Part`] for files that name each other.
//! 3. To write the format, implement the traits `Target` and `TensorFile` of `output::target`, for example in
//!    `write.rs`, and `Sharded` if models may be in several files. Define `pub(super) const WRITER: Writer`: the values
//!    of `--compress`, `--digest` and `--align` that it accepts, and its constructor. Writers exist natively only.
//! 4. Test it in `tests.rs`. Put files written by the format's own tools, each with its `.expected.json`, into
//!    `tests/fixtures/foo/`, and list them in `tests/fixtures/INDEX.json`, from which the tests of all formats read
//!    them.
//! 5. Add `pub mod foo;` with its `cfg` and the line of the registry below, and in `Cargo.toml` the feature `foo`,
//!    which is also an entry of the feature `formats`.
//! 6. Update the table in the README: `UPDATE_README=1 cargo test --test write readme`.
//!
//! `cargo test` then converts to and from the format, reads damaged files and compares the README;
//! `cargo xtask fuzz foo` fuzzes its parser, `cargo xtask build` reports its size.

mod checksum;
mod deferred;
mod document;
mod entry;
mod foreign;
pub(crate) mod ggml;
#[cfg(any(feature = "npy", feature = "pytorch"))]
pub(crate) mod warned;
pub(crate) use foreign::{HEAD_BYTES, MediaType, check_headerless};

#[cfg(feature = "aero")]
#[doc(hidden)]
pub mod aero;
#[cfg(feature = "apr")]
#[doc(hidden)]
pub mod apr;
#[cfg(feature = "burnpack")]
#[doc(hidden)]
pub mod burnpack;
#[cfg(feature = "embd")]
#[doc(hidden)]
pub mod embd;
#[cfg(feature = "gguf")]
#[doc(hidden)]
pub mod gguf;
#[cfg(feature = "hdf5")]
#[doc(hidden)]
pub mod hdf5;
#[cfg(feature = "mlc")]
#[doc(hidden)]
pub mod mlc;
#[cfg(feature = "npy")]
#[doc(hidden)]
pub mod npy;
#[cfg(feature = "npz")]
#[doc(hidden)]
pub mod npz;
#[cfg(feature = "onnx")]
#[doc(hidden)]
pub mod onnx;
#[cfg(feature = "pytorch")]
#[doc(hidden)]
pub mod pytorch;
#[cfg(feature = "safetensors")]
#[doc(hidden)]
pub mod safetensors;
#[cfg(feature = "tfjs")]
#[doc(hidden)]
pub mod tfjs;
#[cfg(feature = "tflite")]
#[doc(hidden)]
pub mod tflite;
#[cfg(feature = "ztensor")]
#[doc(hidden)]
pub mod ztensor;

#[doc(hidden)]
pub use checksum::{Expected, RangeChecksum};
#[doc(hidden)]
pub use document::MAX_MANIFEST_BYTES;
pub(crate) use entry::FileNames;
pub use entry::Format;

use crate::codec::pages::Pages;
use crate::deferred::Code;
use crate::error::{Error, ErrorKind, Result};
use crate::index::padding::PaddingCheck;
use crate::index::publication::Publication;
use crate::index::{MAX_PARTS, Manifest, PageTable, Parsed, Tensor};
use crate::values::json;
use crate::window::{Stop, Window};
use entry::{Detection, ParseDocument, Parser};
use std::borrow::Borrow;

/// Lists the formats: the Cargo feature and the module of each.
///
/// `PARSERS` and `FILE_NAMES` hold only what reading needs. They are separate from `FORMATS` so that wasm modules for
/// browsers do not contain the descriptions.
macro_rules! registry {
    ($($feature:tt => $module:ident,)*) => {
        static FORMATS: &[Format] = &[$(#[cfg(feature = $feature)] $module::FORMAT,)*];
        static PARSERS: &[Parser] = &[$(#[cfg(feature = $feature)] $module::FORMAT.parser,)*];
        static FILE_NAMES: &[FileNames] = &[$(#[cfg(feature = $feature)] FileNames::of(&$module::FORMAT),)*];
    };
}

registry! {
    "aero" => aero,
    "apr" => apr,
    "burnpack" => burnpack,
    "embd" => embd,
    "gguf" => gguf,
    "hdf5" => hdf5,
    "mlc" => mlc,
    "npy" => npy,
    "npz" => npz,
    "onnx" => onnx,
    "tflite" => tflite,
    "pytorch" => pytorch, // behind other archives, because it takes any
    "safetensors" => safetensors,
    "tfjs" => tfjs,
    "ztensor" => ztensor,
}

/// The parser of manifests: JSON documents that name the files of a model, of any format. It is tried last.
static MANIFEST: Parser =
    Parser::new(Detection::Heuristic(is_json_object), parse_manifest).deferred_to(Code::Manifests);

/// The number of bytes at the start of a file from which the format is detected: magics and first fields fit in them.
pub(crate) const SNIFF_BYTES: u64 = 16;

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

/// The format with this name, such as the one to convert to.
///
/// ```
/// # #[cfg(feature = "apr")]
/// assert_eq!(weightstream::format::named("apr")?.extensions, [".apr"]);
/// # Ok::<_, weightstream::Error>(())
/// ```
///
/// # Errors
/// `INVALID_ARGUMENT` if this build reads no such format.
pub fn named(name: &str) -> Result<&'static Format> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        let error = Error::new(ErrorKind::InvalidArgument, format!("weightstream reads no format named `{name}`"));
        error.advise(format!("It must be one of {}.", names.join(", ")))
    })
}

/// How the files of the formats are named.
pub(crate) fn file_names() -> &'static [FileNames] {
    FILE_NAMES
}

/// Detects the format of a file from `head`: its first [`HEAD_BYTES`], or the whole file if it is shorter. Returns
/// `None` for unknown bytes, and for a JSON manifest.
#[doc(hidden)]
pub fn detect(head: &[u8]) -> Option<&'static Format> {
    position(head).and_then(|at| FORMATS.get(at))
}

/// Reads the file's header and index.
///
/// ```
/// # #[cfg(feature = "safetensors")] {
/// use weightstream::internals::index::Parsed;
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
/// assert_eq!((index.format, index.tensors.get(0).unwrap().shape.as_slice()), ("safetensors", &[2][..]));
/// # }
/// ```
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `UNSUPPORTED` if weightstream reads no format that begins with these bytes;
/// another error if the file is invalid.
#[doc(hidden)]
pub fn parse(window: &Window) -> Result<Parsed, Stop> {
    (parser_of(window)?.parse)(window)
}

/// Lists the checksums that cover byte ranges of the file: empty if its format has none.
///
/// # Errors
/// As for [`parse`].
#[doc(hidden)]
pub fn checksums(window: &Window) -> Result<Vec<RangeChecksum>, Stop> {
    (parser_of(window)?.checksums)(window)
}

/// Checks the marks at the end of the file, if its format has any: a truncated file lacks them.
///
/// # Errors
/// `TRUNCATED` if the file does not end with the marks; otherwise as for [`parse`].
#[doc(hidden)]
pub fn check_tail(window: &Window) -> Result<(), Stop> {
    (parser_of(window)?.check_tail)(window)
}

/// The check of the padding of a file with these tensors, if its format requires zeros.
///
/// # Errors
/// As for [`parse`].
pub(crate) fn padding_check(
    window: &Window,
    tensors: impl Iterator<Item = impl Borrow<Tensor>>,
) -> Result<Option<PaddingCheck>, Stop> {
    parser_of(window)?.padding_check(window, tensors)
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
    let head = |length: u64| window.get(0..window.file_length().unwrap_or(length).min(length));
    let of_position = |at: usize| PARSERS.get(at);
    let parser = match position(head(SNIFF_BYTES)?).and_then(of_position) {
        Some(parser) => Some(parser),
        // Few formats need more bytes.
        None => {
            let head = head(HEAD_BYTES)?;
            position(head).and_then(of_position).or_else(|| is_json_object(head).then_some(&MANIFEST))
        }
    };
    parser.ok_or_else(|| foreign::unrecognised(window))?.loaded()
}

/// Returns the position in the registry of the format of a file that begins with `head`.
fn position(long_head: &[u8]) -> Option<usize> {
    let head = long_head.get(..SNIFF_BYTES as usize).unwrap_or(long_head);
    let has_magic = |parser: &Parser| match parser.detection {
        Detection::Magic(magics) => magics.iter().any(|magic| head.starts_with(magic)),
        Detection::Heuristic(_) | Detection::LongHead(_) | Detection::Document => false,
    };
    let matches_heuristic = |parser: &Parser| match parser.detection {
        Detection::Magic(_) | Detection::Document => false,
        Detection::Heuristic(recognises) => recognises(head),
        Detection::LongHead(recognises) => recognises(long_head),
    };
    PARSERS.iter().position(has_magic).or_else(|| PARSERS.iter().position(matches_heuristic))
}

/// Whether the file appears to be a JSON object. No binary format begins like one: SafeTensors has NULs in its first
/// 8 bytes.
#[doc(hidden)] // shared with the crate that publishes models
pub fn is_json_object(head: &[u8]) -> bool {
    json::without_byte_order_mark(head).trim_ascii_start().starts_with(b"{") && !head.contains(&0)
}

fn parse_manifest(window: &Window) -> Result<Parsed, Stop> {
    let (mut document, mut budget) = document::read(window)?;
    let mut manifests = PARSERS.iter().filter_map(|parser| Some((parser, parser.manifest.as_ref()?)));
    match manifests.find(|(_, manifest)| (manifest.recognises)(&document)) {
        Some((parser, manifest)) => {
            parser.loaded()?;
            let parse = match manifest.parse {
                ParseDocument::Manifest(parse) => parse,
                ParseDocument::Tensors(parse) => return Ok(parse(document, &mut budget)?),
            };
            let publication = Publication::take_from(&mut document)?.map(Box::new);
            let mut manifest = check_parts(parse(&document)?)?;
            publication.iter().try_for_each(|publication| publication.describe_parts(&mut manifest.parts))?;
            Ok(Parsed::Manifest(Manifest { publication, ..manifest }))
        }
        None => {
            let what = "this JSON file is not the manifest of a model";
            let advice = "Open the file of the weights, or its manifest such as `model.safetensors.index.json`. If the \
                          server answered with an error message, check the URL.";
            Err(Error::new(ErrorKind::Unsupported, what).advise(advice).into())
        }
    }
}

fn check_parts(manifest: Manifest) -> Result<Manifest> {
    let count = manifest.parts.len() as u64;
    if count > MAX_PARTS {
        let what = format!("the manifest names {count} files; weightstream reads at most {MAX_PARTS}");
        return Err(Error::new(ErrorKind::Limit, what).advise("Write the model in fewer, larger files."));
    }
    Ok(manifest)
}
