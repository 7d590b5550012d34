//! Finds the central directory: reads the records at the end of an archive.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The length of the end record without its comment.
const END_BYTES: u64 = 22;
const END_RECORD: [u8; 4] = *b"PK\x05\x06";

/// The record before the end record that says where the ZIP64 end record is.
const LOCATOR_BYTES: u64 = 20;
const LOCATOR: [u8; 4] = *b"PK\x06\x07";

/// The length of the ZIP64 end record without extensions.
const END64_BYTES: u64 = 56;
const END64_RECORD: [u8; 4] = *b"PK\x06\x06";

/// The maximum length of a comment, which has 16 bits.
const MAX_COMMENT_BYTES: u64 = 0xffff;

/// The length of a directory entry without name, extra fields and comment.
pub(super) const MIN_ENTRY_BYTES: u64 = 46;

/// The maximum length of a directory. One for 100,000 tensors with long names has about 15 MB. Prevents an archive from
/// exhausting memory.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;

/// What the end of an archive states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// The range of the directory in the file.
    pub(super) directory: Range<u64>,
    /// The number of entries.
    pub(super) entries: u64,
    /// The number of bytes before the archive. Offsets in the directory are relative to its start.
    pub(super) shift: u64,
    /// The range of the comment in the file.
    pub(super) comment: Range<u64>,
}

/// The fields that the two end records share.
struct Fields64 {
    disks: [u32; 2],
    entries: [u64; 2],
    directory_length: u64,
    directory_offset: u64,
}

/// Reads the end of the archive.
///
/// # Errors
/// `TRUNCATED` if there is no end record; `FORMAT` if the directory is not in the file; `UNSUPPORTED` for an archive in
/// several volumes; `LIMIT` for a directory that is too long.
pub(super) fn find(window: &Window) -> Result<End, Stop> {
    let length = window.whole_length()?;
    let at = end_record(window, length)?;
    let (fields, records) = match zip64_record(window, at)? {
        Some(start) => (read_zip64(window.get(start..start + END64_BYTES)?, start)?, start..length),
        None => (read_end(window.get(at..at + END_BYTES)?, at)?, at..length),
    };
    let Fields64 { disks, entries, directory_length, directory_offset } = fields;
    if disks != [0, 0] || entries.first() != entries.last() {
        let error = Error::new(ErrorKind::Unsupported, "the ZIP archive has several volumes").at(records);
        return Err(error.advise("Join the volumes into one archive.").into());
    }
    if directory_length > MAX_DIRECTORY_BYTES {
        let what =
            format!("the directory of the archive has {directory_length} bytes; the limit is {MAX_DIRECTORY_BYTES}");
        return Err(Error::new(ErrorKind::Limit, what).at(records).into());
    }
    let start = records.start.checked_sub(directory_length);
    let located = start.and_then(|start| Some((start, start.checked_sub(directory_offset)?)));
    let Some((start, shift)) = located else {
        let what = format!(
            "the directory of the archive should have {directory_length} bytes at {directory_offset}, but it must end \
             at {}",
            records.start
        );
        return Err(malformed(what).at(records).into());
    };
    let [entries, _] = entries;
    if entries.saturating_mul(MIN_ENTRY_BYTES) > directory_length {
        let what = format!("the archive claims {entries} entries in a directory of {directory_length} bytes");
        return Err(malformed(what).at(records).into());
    }
    Ok(End { directory: start..records.start, entries, shift, comment: at + END_BYTES..length })
}

/// The offset of the end record: of the last one whose comment ends with the file.
fn end_record(window: &Window, length: u64) -> Result<u64, Stop> {
    let missing = |from: u64| {
        let what = "the file does not end with the end record of a ZIP archive";
        Stop::Failed(Error::new(ErrorKind::Truncated, what).at(from..length))
    };
    let last = length.checked_sub(END_BYTES).ok_or_else(|| missing(0))?;
    let without_comment = window.get(last..length)?;
    if without_comment.starts_with(&END_RECORD) && without_comment.ends_with(&[0, 0]) {
        return Ok(last);
    }
    let from = last.saturating_sub(MAX_COMMENT_BYTES);
    let tail = window.get(from..length)?;
    let fits = |at: &usize| {
        let record = tail.get(*at..).unwrap_or_default();
        let comment = record.get(20..22).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
        record.starts_with(&END_RECORD)
            && comment.is_some_and(|comment| u64::from(comment) + END_BYTES == record.len() as u64)
    };
    let at = (0..=tail.len().saturating_sub(END_BYTES as usize)).rev().find(fits);
    at.map(|at| from + at as u64).ok_or_else(|| missing(from))
}

/// The offset of the ZIP64 end record, if the archive has one: directly before its locator, or where that says.
fn zip64_record(window: &Window, end: u64) -> Result<Option<u64>, Stop> {
    let Some(locator) = end.checked_sub(LOCATOR_BYTES) else { return Ok(None) };
    let mut fields = Fields::new(window.get(locator..end)?, locator, "the locator of the ZIP64 end record");
    if fields.array()? != LOCATOR {
        return Ok(None);
    }
    fields.u32()?;
    let stated = fields.u64()?;
    let usual = locator.checked_sub(END64_BYTES);
    for start in usual.into_iter().chain([stated]) {
        let record = start..start.saturating_add(END64_BYTES);
        if record.end <= locator && window.get(record)?.starts_with(&END64_RECORD) {
            return Ok(Some(start));
        }
    }
    Err(malformed("the archive has a locator, but no ZIP64 end record").at(locator..end).into())
}

fn read_end(bytes: &[u8], at: u64) -> Result<Fields64> {
    let mut fields = Fields::new(bytes, at, "the end record");
    fields.u32()?;
    Ok(Fields64 {
        disks: [fields.u16()?.into(), fields.u16()?.into()],
        entries: [fields.u16()?.into(), fields.u16()?.into()],
        directory_length: fields.u32()?.into(),
        directory_offset: fields.u32()?.into(),
    })
}

fn read_zip64(bytes: &[u8], at: u64) -> Result<Fields64> {
    let mut fields = Fields::new(bytes, at, "the ZIP64 end record");
    fields.u32()?;
    fields.u64()?; // the length of the record
    fields.u32()?; // the versions
    Ok(Fields64 {
        disks: [fields.u32()?, fields.u32()?],
        entries: [fields.u64()?, fields.u64()?],
        directory_length: fields.u64()?,
        directory_offset: fields.u64()?,
    })
}
