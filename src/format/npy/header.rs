//! The header of an array: its dtype, order and shape.

use super::literal::{Literal, read_dictionary};
use crate::error::{Error, ErrorKind, Result, malformed};

/// The first bytes of an array.
pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The number of bytes of an array that contain the length of its header.
const PREFIX_BYTES: u64 = 12;

/// The maximum length of a header. Only structured dtypes of thousands of fields are longer. `numpy.load` reads headers
/// of at most 10,000 bytes by default.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// The header of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// The version of the format.
    pub(crate) version: [u8; 2],
    /// The dtype as NumPy spells it, such as `<f4`; `None` for a structured one.
    pub(super) descr: Option<String>,
    /// Whether the elements are in column-major order.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
    /// The offset of the elements in the array.
    pub(crate) data_start: u64,
}

/// What the beginning of an array contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The whole header.
    Header(Header),
    /// Too few bytes: the header ends here.
    Needs(u64),
}

/// Reads the header of an array from its first bytes, or from all of it if it is shorter.
///
/// # Errors
/// `FORMAT` for bytes that are no array of NumPy; `UNSUPPORTED` for another version; `LIMIT` for a header that is too
/// long.
pub(crate) fn read(content: &[u8], content_length: u64) -> Result<Reading> {
    let Some(prefix) = content.first_chunk::<{ PREFIX_BYTES as usize }>() else {
        return needs(PREFIX_BYTES, content_length);
    };
    let [_, _, _, _, _, _, major, minor, low, high, rest @ ..] = *prefix;
    if !prefix.starts_with(MAGIC) {
        return Err(malformed("it does not begin like an array of NumPy"));
    }
    let (start, length) = match (major, rest) {
        (1, _) => (PREFIX_BYTES - 2, u32::from_le_bytes([low, high, 0, 0])),
        (2 | 3, [third, fourth]) => (PREFIX_BYTES, u32::from_le_bytes([low, high, third, fourth])),
        _ => {
            let what = format!("it has version {major}.{minor} of NumPy's format; weightstream reads 1.0 to 3.0");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
    };
    if u64::from(length) > MAX_HEADER_BYTES {
        let what = format!("its header has {length} bytes; weightstream reads at most {MAX_HEADER_BYTES}");
        return Err(Error::new(ErrorKind::Limit, what));
    }
    let data_start = start + u64::from(length);
    let Some(text) = content.get(start as usize..data_start as usize) else {
        return needs(data_start, content_length);
    };
    // Before version 3 it is Latin-1, but only names of fields have other characters than ASCII.
    let text = String::from_utf8_lossy(text);
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    read_dictionary(&text, |key, value| {
        match (key, value) {
            ("descr", Literal::Text(text)) => descr = Some(Some(text.to_owned())),
            ("descr", Literal::Other(_) | Literal::Sizes(_)) => descr = Some(None),
            ("fortran_order", Literal::Bool(value)) => fortran_order = Some(value),
            ("shape", Literal::Sizes(sizes)) => shape = Some(sizes),
            (key, _) => return Err(malformed(format!("its header has an unexpected `{}`", key.escape_debug()))),
        }
        Ok(())
    })?;
    let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
        return Err(malformed("its header lacks `descr`, `fortran_order` or `shape`"));
    };
    Ok(Reading::Header(Header { version: [major, minor], descr, fortran_order, shape, data_start }))
}

fn needs(bytes: u64, content_length: u64) -> Result<Reading> {
    if bytes <= content_length {
        return Ok(Reading::Needs(bytes));
    }
    let what = format!("its header reaches to byte {bytes}, but it has only {content_length} bytes");
    Err(Error::new(ErrorKind::Truncated, what))
}
