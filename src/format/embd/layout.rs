//! Detects the layout of a file, and calls its parser.

use super::{sequential, specified};
use crate::error::{Error, ErrorKind, Result};
use crate::fields::Fields;
use crate::format::checksum::RangeChecksum;
use crate::index::Parsed;
use crate::window::{Stop, Window};

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let index = match layout(window)? {
        Layout::Specified(header) => specified::parse(window, &header)?,
        Layout::Sequential => sequential::parse(window)?,
    };
    Ok(Parsed::File(index))
}

pub(super) fn checksums(window: &Window) -> Result<Vec<RangeChecksum>, Stop> {
    Ok(match layout(window)? {
        Layout::Specified(header) => specified::checksums(&header),
        Layout::Sequential => Vec::new(),
    })
}

pub(super) fn check_tail(window: &Window) -> Result<(), Stop> {
    match layout(window)? {
        Layout::Specified(header) => specified::check_tail(window, &header),
        Layout::Sequential => Ok(()),
    }
}

enum Layout {
    Specified(specified::Header),
    Sequential,
}

/// Detects the layout of the file. Both layouts have the same first 8 bytes. In the specification's layout the flags
/// and four offsets follow; in the layout of the tools, the number of tensors, and the length and text of the first
/// name.
fn layout(window: &Window) -> Result<Layout, Stop> {
    let end = specified::HEADER_BYTES.min(window.file_length().unwrap_or(u64::MAX));
    let head = window.get(0..end)?;
    if let Some(header) = specified::Header::recognise(head, window.file_length())? {
        return Ok(Layout::Specified(header));
    }
    let mut fields = Fields::new(head, 0, "the header");
    fields.array::<4>()?;
    let version = fields.u32()?;
    if version != 1 {
        let (major, minor) = (version & 0xffff, version >> 16);
        let what = format!("EMBD version {major}.{minor}; weightstream reads version 1.0");
        return Err(Error::new(ErrorKind::Unsupported, what).at(4..8).into());
    }
    if sequential::is_plausible(head) {
        return Ok(Layout::Sequential);
    }
    let what = "the CRC32 of the header does not match, and no tensor follows as the format's tools write it";
    Err(Error::new(ErrorKind::Checksum, what).at(0..end).into())
}
