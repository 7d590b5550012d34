//! Detects the layout of a file, and calls its parser.

use super::head::crc32_before;
use super::{apr1, aprn, draft, shipped, wrapper};
use crate::deferred::Code;
use crate::error::Result;
use crate::format::checksum::RangeChecksum;
use crate::format::deferred;
use crate::index::Parsed;
use crate::window::{Stop, Window};

/// The binary layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Draft,
    Shipped,
    Wrapper,
    Apr1,
    Aprn,
}

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    match layout(window)? {
        Layout::Draft => draft::parse(window),
        Layout::Shipped => shipped::parse(window),
        // The parsers of the other layouts are deferred.
        Layout::Wrapper => deferred::check(Code::Formats).and_then(|()| wrapper::parse(window)),
        Layout::Apr1 => deferred::check(Code::Formats).and_then(|()| apr1::parse(window)),
        Layout::Aprn => deferred::check(Code::Formats).and_then(|()| aprn::parse(window)),
    }
}

pub(super) fn checksums(window: &Window) -> Result<Vec<RangeChecksum>, Stop> {
    match layout(window)? {
        Layout::Draft => draft::checksums(window),
        Layout::Shipped => shipped::checksums(window),
        Layout::Wrapper => Ok(Vec::new()), // the wrapped file has one
        // The CRC32 at the end covers all bytes before it.
        _ => Ok(window.file_length().and_then(|length| length.checked_sub(4)).map(crc32_before).into_iter().collect()),
    }
}

pub(super) fn check_tail(window: &Window) -> Result<(), Stop> {
    match layout(window)? {
        Layout::Draft => draft::check_tail(window),
        _ => Ok(()), // the head determines the end of the file
    }
}

/// Detects the layout. `APR2` and `APR\0` are each used by two or three layouts.
fn layout(window: &Window) -> Result<Layout, Stop> {
    let magic = window.get(0..4)?;
    if magic == b"APR1" {
        return Ok(Layout::Apr1);
    }
    if magic == b"APRN" {
        return Ok(Layout::Aprn);
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
