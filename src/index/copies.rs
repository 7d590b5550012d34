//! Ranges of a published file whose bytes files of the previous revision have, too.

use super::{check_part_count, part_path};
use crate::error::{Error, Result, malformed};
use crate::sorting::sort;
use crate::values::json::shown;
use serde_json::Value;
use std::ops::Range;

/// What a new file has in common with files of the previous revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Copies {
    /// The paths of these files, relative to the manifest.
    pub files: Vec<String>,
    /// In the order of the new file. They do not overlap.
    pub ranges: Vec<CopiedRange>,
}

/// A range of a new file whose bytes a file of the previous revision has, too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopiedRange {
    /// The range in the new file. It is not empty.
    pub range: Range<u64>,
    /// The index of the file of the previous revision.
    pub file: usize,
    /// The offset of the same bytes in that file.
    pub start_in_file: u64,
}

/// Parses `{ "previous": [[start, start in previous, byte length], …] }` for the file `path`.
///
/// # Errors
/// `FORMAT` if it is malformed; `LIMIT` for more files than a model has.
pub(super) fn parse(path: &str, stated: &Value) -> Result<Copies> {
    let mut copies = Copies::default();
    let files = stated.as_object().ok_or_else(|| invalid(path, stated))?;
    check_part_count(files.len() as u64)?;
    for (file, (previous, ranges)) in files.iter().enumerate() {
        copies.files.push(part_path(previous)?);
        for range in ranges.as_array().ok_or_else(|| invalid(path, stated))? {
            copies.ranges.push(parse_range(file, range).ok_or_else(|| invalid(path, stated))?);
        }
    }
    sort(&mut copies.ranges, |copied| (copied.range.start, 0, 0));
    let mut end = 0;
    let is_apart = |copied: &CopiedRange| {
        let is_apart = end <= copied.range.start;
        end = end.max(copied.range.end);
        is_apart
    };
    copies.ranges.retain(is_apart);
    Ok(copies)
}

fn parse_range(file: usize, stated: &Value) -> Option<CopiedRange> {
    let [start, start_in_file, byte_length] = stated.as_array()?.as_slice() else { return None };
    let (start, start_in_file, byte_length) = (start.as_u64()?, start_in_file.as_u64()?, byte_length.as_u64()?);
    start_in_file.checked_add(byte_length)?;
    let range = start..start.checked_add(byte_length)?;
    (!range.is_empty()).then_some(CopiedRange { range, file, start_in_file })
}

fn invalid(path: &str, stated: &Value) -> Error {
    let what = format!("the manifest states what \"{path}\" shares with the previous revision as {}", shown(stated));
    malformed(what).advise("It must be lists of [start, start in the previous file, byte length], by file.")
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ranges_are_sorted_and_do_not_overlap() {
        let copies = parse("new", &json!({ "a": [[50, 0, 10], [0, 5, 20]], "b": [[55, 0, 10], [20, 0, 30]] })).unwrap();
        assert_eq!(copies.files, ["a", "b"]);
        let ranges: Vec<_> = copies.ranges.into_iter().map(|c| (c.range, c.file, c.start_in_file)).collect();
        assert_eq!(ranges, [(0..20, 0, 5), (20..50, 1, 0), (50..60, 0, 0)]);
    }
}
