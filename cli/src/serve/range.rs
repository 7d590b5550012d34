//! The `Range` header (RFC 9110, section 14).

use std::ops::Range;

/// The part of a file that a `Range` header selects.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The whole file: the header is ignored.
    Whole,
    Part(Range<u64>),
    /// No bytes: the range begins beyond the end of the file.
    Unsatisfiable,
}

/// Parses a `Range` header for a file of `byte_length` bytes. Malformed headers, units other than bytes, and requests
/// for several ranges are ignored, as the RFC allows.
pub(super) fn select(header: &str, byte_length: u64) -> Selection {
    let Some((first, last)) = split(header) else {
        return Selection::Whole;
    };
    match (position(first), position(last)) {
        (Position::Absent, Position::At(0)) => Selection::Unsatisfiable,
        // A suffix of an empty file is the whole file, and Content-Range cannot express an empty range.
        (Position::Absent, Position::At(_)) if byte_length == 0 => Selection::Whole,
        (Position::Absent, Position::At(count)) => Selection::Part(byte_length.saturating_sub(count)..byte_length),
        (Position::At(first), Position::At(last)) if last < first => Selection::Whole,
        (Position::At(first), Position::At(_) | Position::Absent) if first >= byte_length => Selection::Unsatisfiable,
        (Position::At(first), Position::At(last)) => Selection::Part(first..last.saturating_add(1).min(byte_length)),
        (Position::At(first), Position::Absent) => Selection::Part(first..byte_length),
        _ => Selection::Whole,
    }
}

fn split(header: &str) -> Option<(&str, &str)> {
    let (unit, range) = header.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some((first, last))
}

enum Position {
    Absent,
    At(u64),
    Malformed,
}

/// Parses a position. A number beyond u64 is valid, and beyond the end of every file.
fn position(digits: &str) -> Position {
    if digits.is_empty() {
        Position::Absent
    } else if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Position::At(digits.parse().unwrap_or(u64::MAX))
    } else {
        Position::Malformed
    }
}
