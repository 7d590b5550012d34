//! Ranges of a published file that a file of the previous revision contains, too.

use super::part_path;
use crate::error::{Error, Result, malformed};
use crate::format::values::json::shown;
use serde_json::Value;
use std::ops::Range;

/// A range whose bytes can be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedRange {
    /// The range in the new file.
    pub(crate) range: Range<u64>,
    /// The offset of the same bytes in the file of the previous revision.
    pub(crate) previous_start: u64,
}

/// What a new file shares with one file of the previous revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copies {
    /// The path of the file of the previous revision.
    pub(crate) previous: String,
    /// In the order of the manifest.
    pub(crate) ranges: Vec<SharedRange>,
}

/// Parses `{ "previous": [[start, previous start, byte length], …] }` for the file `path`.
///
/// # Errors
/// `FORMAT` if it is malformed.
pub(super) fn parse(path: &str, stated: &Value) -> Result<Vec<Copies>> {
    let invalid = || invalid(path, stated);
    let previous_files = stated.as_object().ok_or_else(invalid)?.iter();
    let parse_one = |(previous, ranges): (&String, &Value)| {
        let ranges = ranges.as_array().ok_or_else(invalid)?.iter();
        let ranges = ranges.map(|range| parse_range(range).ok_or_else(invalid)).collect::<Result<_>>()?;
        Ok(Copies { previous: part_path(previous)?, ranges })
    };
    previous_files.map(parse_one).collect()
}

fn parse_range(stated: &Value) -> Option<SharedRange> {
    let [start, previous_start, byte_length] = stated.as_array()?.as_slice() else { return None };
    let (start, previous_start, byte_length) = (start.as_u64()?, previous_start.as_u64()?, byte_length.as_u64()?);
    previous_start.checked_add(byte_length)?;
    Some(SharedRange { range: start..start.checked_add(byte_length)?, previous_start })
}

fn invalid(path: &str, stated: &Value) -> Error {
    let what = format!("the manifest states what \"{path}\" shares with the previous revision as {}", shown(stated));
    malformed(what).advise("It must be lists of [start, previous start, byte length], by file.")
}
