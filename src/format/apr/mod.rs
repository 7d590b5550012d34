//! APR: what its specification lays out, and what its tools write. Six layouts share the letters `APR`:
//!
//! | first bytes | layout | file |
//! | --- | --- | --- |
//! | `APR2` | the specification's APR v2, a 32-byte header | [`draft`] |
//! | `APR2` or `APR\0` | APR v2 as `aprender` and `apr-format` write it, a 64-byte header | `shipped` |
//! | `APR2` or `APR\0` | a compressed wrapper round an APR1 file | `wrapper` |
//! | `APR1` | JSON metadata, a JSON index, F32 tensors | `apr1` |
//! | `APRN` | MessagePack metadata and one serialized Rust value | `aprn` |
//! | `{` | a manifest of several files, in the specification's spelling or `apr-format`'s | `manifest` |
//!
//! Sources: APR-FORMAT-002; the crates `aprender` 0.19 to 0.27 and `apr-format` 0.60 to 0.72.

mod apr1;
#[cfg(feature = "msgpack")]
mod aprn;
pub mod draft;
mod manifest;
mod shipped;
mod wrapper;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod write;

pub use manifest::{is_manifest, parse_manifest};

use super::{Format, Stated, StretchChecksum};
use crate::codec;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Encoding, Parsed};
use crate::window::{Stop, Window};

/// The format.
pub const FORMAT: Format = Format { name: "apr", recognises, parse, checksums, check_tail };

/// Metadata and index together: a model of 100,000 tensors with a vocabulary of 250,000 tokens has some 30 MB.
/// Stops an offset that would make the reader fetch the tensors as if they were an index, and JSON that would take
/// many times its own size once it is parsed.
pub(crate) const MAX_HEAD_BYTES: u64 = 64 << 20;

/// What is compressed in one piece is decoded in one piece. `apr-format` has the same limit.
/// Stops a length that would fill the memory.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The layouts of files that are not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Draft,
    Shipped,
    Wrapper,
    Apr1,
    #[cfg(feature = "msgpack")]
    Aprn,
}

fn recognises(head: &[u8]) -> bool {
    [b"APR2", b"APR\0", b"APR1", b"APRN"].iter().any(|magic| head.starts_with(*magic))
}

fn parse(window: &Window) -> Result<Parsed, Stop> {
    match layout(window)? {
        Layout::Draft => draft::parse(window),
        Layout::Shipped => shipped::parse(window),
        Layout::Wrapper => wrapper::parse(window),
        Layout::Apr1 => apr1::parse(window),
        #[cfg(feature = "msgpack")]
        Layout::Aprn => aprn::parse(window),
    }
}

fn checksums(window: &Window) -> Result<Vec<StretchChecksum>, Stop> {
    match layout(window)? {
        Layout::Draft => draft::checksums(window),
        Layout::Shipped => shipped::checksums(window),
        Layout::Wrapper => Ok(Vec::new()), // what it holds has one
        // The CRC32 at the end, of all bytes before it.
        _ => Ok(window.file_length().and_then(|length| length.checked_sub(4)).map(crc32_before).into_iter().collect()),
    }
}

fn check_tail(window: &Window) -> Result<(), Stop> {
    match layout(window)? {
        Layout::Draft => draft::check_tail(window),
        _ => Ok(()), // their heads tell where the file ends
    }
}

/// Tells the layouts apart. `APR2` and `APR\0` have each stood for two or three of them.
fn layout(window: &Window) -> Result<Layout, Stop> {
    let magic = window.get(0..4)?;
    if magic == b"APR1" {
        return Ok(Layout::Apr1);
    }
    if magic == b"APRN" {
        return aprn_layout().map_err(|e| e.at(0..4).into());
    }
    let could_be_draft = magic == draft::MAGIC;
    let head = window.get(0..shipped::MIN_SNIFF_BYTES)?;
    Ok(if wrapper::recognises(head) {
        Layout::Wrapper
    } else if shipped::recognises(head) || !could_be_draft {
        Layout::Shipped
    } else {
        Layout::Draft
    })
}

fn aprn_layout() -> Result<Layout> {
    #[cfg(feature = "msgpack")]
    return Ok(Layout::Aprn);
    #[cfg(not(feature = "msgpack"))]
    {
        let error = Error::new(ErrorKind::Unsupported, "the file is of APR's layout `APRN`, which needs MessagePack");
        Err(error.advise("Use a build of weightstream that has the feature `msgpack`."))
    }
}

/// The footer's CRC32 at `start`, of all bytes before it.
fn crc32_before(start: u64) -> StretchChecksum {
    StretchChecksum { over: 0..start, stated: Stated::Crc32At(start), by: "the footer".to_owned() }
}

/// A dtype of a code that is in no table: its tensors load as raw bytes.
fn unknown_dtype(code: u8) -> Dtype {
    Dtype::Other(format!("APR_{code}").into())
}

/// Refuses a head that is longer than one can be, before it is fetched.
fn check_head_length(byte_length: u64) -> Result<()> {
    if byte_length <= MAX_HEAD_BYTES {
        return Ok(());
    }
    let what =
        format!("the tensors begin at byte {byte_length}; weightstream reads at most {MAX_HEAD_BYTES} before them");
    Err(Error::new(ErrorKind::Limit, what))
}

/// The encoding of what is compressed with Zstandard.
///
/// # Errors
/// `UNSUPPORTED` where weightstream was built without it.
fn zstd() -> Result<Encoding> {
    #[cfg(feature = "zstd")]
    return Ok(Encoding::Zstd);
    #[cfg(not(feature = "zstd"))]
    {
        let error = Error::new(ErrorKind::Unsupported, "the file is compressed with zstd");
        Err(error.advise("Use a build of weightstream that has the feature `zstd`."))
    }
}

/// Checks how long something of `stored` bytes, compressed in one piece, claims to be once it is decoded.
fn check_unpacked_length(encoding: Encoding, stored: u64, decoded: u64) -> Result<()> {
    if decoded > MAX_UNPACKED_BYTES {
        let what = format!(
            "it claims to decode to {decoded} bytes; weightstream decodes at most {MAX_UNPACKED_BYTES} in one piece"
        );
        return Err(Error::new(ErrorKind::Limit, what));
    }
    match encoding {
        Encoding::Lz4Block => codec::lz4::check_lengths(stored, decoded),
        #[cfg(feature = "zstd")]
        Encoding::Zstd => codec::zstd::check_lengths(stored, decoded),
        _ => Ok(()),
    }
}
