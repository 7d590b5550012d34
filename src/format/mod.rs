//! The formats, a file each, all alike: a [`Format`] that recognises the first bytes, parses a [`Window`]
//! into an [`Index`](crate::index::Index) or a [`Manifest`](crate::index::Manifest), names the checksums of
//! the file, and tells a whole file from a cut one by its tail.

#[cfg(feature = "aero")]
pub mod aero;
pub mod apr;
mod budget;
#[cfg(feature = "burnpack")]
pub mod burnpack;
#[cfg(feature = "cbor")]
mod cbor;
#[cfg(any(feature = "aero", feature = "ztensor"))]
mod described;
#[cfg(feature = "embd")]
pub mod embd;
#[cfg(any(feature = "aero", feature = "gguf"))]
mod ggml;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "msgpack")]
mod input;
mod json;
#[cfg(feature = "msgpack")]
mod msgpack;
pub mod safetensors;
mod value_of_json;
#[cfg(feature = "ztensor")]
pub mod ztensor;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use json::part_path;

use crate::codec::pages::Pages;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Digest, PageTable, Parsed};
use crate::window::{Stop, Window};
use std::ops::Range;

/// Every format, in the order in which they are asked whether a file is theirs.
pub const FORMATS: &[Format] = &[
    #[cfg(feature = "aero")]
    aero::FORMAT,
    #[cfg(feature = "apr")]
    apr::FORMAT,
    #[cfg(feature = "burnpack")]
    burnpack::FORMAT,
    #[cfg(feature = "embd")]
    embd::FORMAT,
    #[cfg(feature = "gguf")]
    gguf::FORMAT,
    #[cfg(feature = "safetensors")]
    safetensors::FORMAT,
    #[cfg(feature = "ztensor")]
    ztensor::FORMAT,
    json::FORMAT,
];

/// Magics and first fields fit in this many bytes.
const SNIFF_BYTES: u64 = 16;

/// A document that names the files of a model is read whole; one for 100,000 tensors has some 10 MB.
/// Stops a manifest that would fill the memory.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// A format that weightstream reads: what it takes to read one of its files.
///
/// The functions read as if all of the file were known, and stop with [`Stop::Need`] where it is not.
#[derive(Debug)]
pub struct Format {
    /// As `inspect` prints it: `"apr"`, `"safetensors"` …
    pub name: &'static str,
    /// Whether a file that begins with these bytes, 16 of them or the whole of a shorter file, is of this format.
    pub recognises: fn(&[u8]) -> bool,
    /// Reads the file's header and index. A count in the file never makes it allocate more than the file's own size.
    pub parse: fn(&Window) -> Result<Parsed, Stop>,
    /// What stretches of the file can be checked by. Needs the head and the file's length, but not its tail.
    pub checksums: fn(&Window) -> Result<Vec<StretchChecksum>, Stop>,
    /// Checks the marks at the end of the file, where there are some.
    pub check_tail: fn(&Window) -> Result<(), Stop>,
}

/// A checksum over a stretch of a file, which can be told only once all of the stretch was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StretchChecksum {
    /// The bytes it covers.
    pub over: Range<u64>,
    /// What they should have.
    pub stated: Stated,
    /// What errors call whoever states it: "the footer".
    pub by: String,
}

/// Where a file states a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stated {
    /// In what was read already.
    Digest(Digest),
    /// A CRC-32/IEEE, little-endian, at this offset, which may come last of all.
    Crc32At(u64),
}

/// Which format the file's first bytes belong to.
///
/// # Errors
/// `UNSUPPORTED` for bytes of no format that weightstream reads.
pub fn recognise(window: &Window) -> Result<&'static Format, Stop> {
    let sniff_end = window.file_length().unwrap_or(SNIFF_BYTES).min(SNIFF_BYTES);
    let head = window.get(0..sniff_end)?;
    let format = FORMATS.iter().find(|format| (format.recognises)(head));
    format.ok_or_else(|| unrecognised(head).into())
}

/// Reads the file's header and index.
///
/// ```
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
/// ```
///
/// # Errors
/// [`Stop::Need`] until the bytes are there; what is wrong with the file otherwise.
pub fn parse(window: &Window) -> Result<Parsed, Stop> {
    (recognise(window)?.parse)(window)
}

/// What stretches of the file can be checked by: empty where its format keeps no such checksums.
///
/// # Errors
/// As for [`parse`].
pub fn checksums(window: &Window) -> Result<Vec<StretchChecksum>, Stop> {
    (recognise(window)?.checksums)(window)
}

/// Checks the marks at the end of the file, where its format has some: they tell a whole file from a cut one.
///
/// # Errors
/// `TRUNCATED` where the end is not the end; as for [`parse`] otherwise.
pub fn check_tail(window: &Window) -> Result<(), Stop> {
    (recognise(window)?.check_tail)(window)
}

/// Reads the digests of a component's pages ([`Component::pages`](crate::index::Component::pages)).
///
/// # Errors
/// As for [`parse`].
pub fn page_digests(window: &Window, table: &PageTable) -> Result<Pages, Stop> {
    #[cfg(feature = "aero")]
    return aero::page_digests(window, table);
    #[cfg(not(feature = "aero"))]
    {
        _ = window;
        Err(Error::new(ErrorKind::Internal, "no format here has digests of pages").at(table.at.clone()).into())
    }
}

/// For formats that keep no checksum of the file.
fn no_checksums(_: &Window) -> Result<Vec<StretchChecksum>, Stop> {
    Ok(Vec::new())
}

/// For formats that do not mark the file's end.
fn no_tail(_: &Window) -> Result<(), Stop> {
    Ok(())
}

/// Where the next tensor begins, of those that begin at `starts` in ascending order: up to there reaches one whose
/// dtype has no known size.
#[cfg(any(feature = "embd", feature = "gguf"))]
fn next_start(starts: &[u64], start: u64) -> Option<u64> {
    starts.get(starts.partition_point(|&other| other <= start)).copied()
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
