//! Reads the central directory: the names, lengths and offsets of the entries.

use super::end::{self, End};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::fields::Fields;
use crate::sorting::sort;
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The first bytes of an entry of the directory.
const DIRECTORY_ENTRY: [u8; 4] = *b"PK\x01\x02";

/// The length of a local header without its name and extra fields.
pub(super) const LOCAL_BYTES: u64 = 30;

/// The number of the extra field with 64-bit lengths and offsets.
const ZIP64_EXTRA: u16 = 1;

/// The value of a field whose actual value is in the ZIP64 extra field.
const IN_EXTRA: u64 = u32::MAX as u64;

/// Flags of encrypted entries: the entry, strongly, and its local header.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;

/// The flag of entries whose checksum and lengths are behind the data.
const DESCRIPTOR: u16 = 1 << 3;

/// The memory of an entry, without its name.
const ENTRY_BYTES: u64 = size_of::<Entry>() as u64 * 2 + 8;

/// The maximum length of a name in messages: archives may have names of 64 KiB.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// The directory of an archive.
#[derive(Debug)]
pub(crate) struct Archive {
    /// In the order of the file.
    pub(crate) entries: Vec<Entry>,
    /// The range of the comment in the file.
    pub(crate) comment: Range<u64>,
    /// The length of the directory.
    pub(crate) directory_length: u64,
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The path in the archive.
    pub(crate) name: Box<str>,
    /// The CRC-32 of the content.
    pub(crate) crc32: u32,
    /// The length of the content.
    pub(crate) byte_length: u64,
    /// The length of the stored bytes.
    pub(crate) stored_length: u64,
    /// The offset of the local header in the file.
    pub(crate) offset: u64,
    /// The offset of the next entry, or of the directory.
    pub(crate) limit: u64,
    flags: u16,
    pub(super) method: u16,
}

/// How the content of an entry is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// As it is.
    Stored,
    /// In DEFLATE.
    Deflated,
}

impl Archive {
    /// Reads the directory.
    ///
    /// # Errors
    /// As for [`end::find`]; `FORMAT` for an invalid entry, or entries that overlap; `LIMIT` for more entries than the
    /// budget allows.
    pub(crate) fn read(window: &Window) -> Result<Archive, Stop> {
        let End { directory, entries: count, shift, comment } = end::find(window)?;
        let bytes = window.get(directory.clone())?;
        let mut fields = Fields::new(bytes, directory.start, "the directory of the archive");
        let mut budget = Budget::of(window, bytes.len() as u64);
        budget.bytes(count.saturating_mul(ENTRY_BYTES), 0)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let entry = read_entry(&mut fields, shift)?;
            budget.text(entry.name.len() as u64)?;
            entries.push(entry);
        }
        sort(&mut entries, |entry| (entry.offset, 0, 0));
        set_limits(&mut entries, directory.start)?;
        Ok(Archive { entries, comment, directory_length: bytes.len() as u64 })
    }
}

impl Entry {
    /// How the content is stored.
    ///
    /// # Errors
    /// `UNSUPPORTED` for an encrypted entry or another method; `FORMAT` if the lengths of stored content differ.
    pub(crate) fn method(&self) -> Result<Method> {
        let refuse = |what: String, advice: &str| Err(Error::new(ErrorKind::Unsupported, what).advise(advice));
        let Entry { byte_length, stored_length, .. } = self;
        let name = self.shown_name();
        if self.flags & ENCRYPTED != 0 {
            let what = format!("the entry {name} of the archive is encrypted");
            return refuse(what, "Write the archive without a password.");
        }
        match self.method {
            0 if byte_length != stored_length => Err(malformed(format!(
                "the entry {name} of the archive is stored, but its lengths differ: {stored_length} and \
                 {byte_length} bytes"
            ))),
            0 => Ok(Method::Stored),
            8 => Ok(Method::Deflated),
            other => {
                let what = format!("the entry {name} of the archive is compressed with the method {other}");
                refuse(what, "Write the archive with the method `stored` or `deflated`.")
            }
        }
    }

    /// The name for messages.
    pub(crate) fn shown_name(&self) -> String {
        let name: String = self.name.chars().take(MAX_SHOWN_CHARACTERS).collect();
        let rest = if name.len() < self.name.len() { "…" } else { "" };
        format!("\"{name}{rest}\"")
    }

    /// Whether checksum and lengths follow the data.
    pub(super) fn has_descriptor(&self) -> bool {
        self.flags & DESCRIPTOR != 0
    }
}

fn read_entry(fields: &mut Fields, shift: u64) -> Result<Entry> {
    let start = fields.position();
    if fields.array()? != DIRECTORY_ENTRY {
        return Err(malformed("the directory of the archive has no entry here").at(start..start + 4));
    }
    fields.u32()?; // versions
    let (flags, method) = (fields.u16()?, fields.u16()?);
    fields.u32()?; // time
    let crc32 = fields.u32()?;
    let (stored, length) = (u64::from(fields.u32()?), u64::from(fields.u32()?));
    let [name, extra, comment] = [fields.u16()?, fields.u16()?, fields.u16()?].map(usize::from);
    fields.u64()?; // volume and attributes
    let offset = u64::from(fields.u32()?);
    let name = fields.utf8(name)?;
    let extra_start = fields.position();
    let extra = Fields::new(fields.take(extra)?, extra_start, "an extra field of the archive");
    fields.take(comment)?;
    let [length, stored, offset] = with_zip64(extra, [length, stored, offset])?;
    let overflows = || malformed("the offset of an entry of the archive overflows u64").at(fields.since(start));
    let offset = offset.checked_add(shift).ok_or_else(overflows)?;
    let (name, limit) = (name.into(), u64::MAX);
    Ok(Entry { name, crc32, byte_length: length, stored_length: stored, offset, limit, flags, method })
}

/// Replaces the values that are in the ZIP64 extra field, which has only those, in this order.
fn with_zip64(mut extra: Fields, mut values: [u64; 3]) -> Result<[u64; 3]> {
    while values.contains(&IN_EXTRA) {
        let Ok(kind) = extra.u16() else { break }; // a value may be exactly 2^32 - 1
        let (start, length) = (extra.position(), extra.u16()?.into());
        let mut field = Fields::new(extra.take(length)?, start, "the ZIP64 extra field of the archive");
        if kind == ZIP64_EXTRA {
            for value in values.iter_mut().filter(|value| **value == IN_EXTRA) {
                *value = field.u64()?;
            }
            break;
        }
    }
    Ok(values)
}

/// Sets where each entry must end at the latest, and checks that it does.
fn set_limits(entries: &mut [Entry], directory_start: u64) -> Result<()> {
    let mut next = (directory_start, None);
    for at in (0..entries.len()).rev() {
        let Some(entry) = entries.get_mut(at) else { break };
        (entry.limit, next) = (next.0, (entry.offset, Some(at)));
    }
    for (at, entry) in entries.iter().enumerate() {
        let Entry { offset, stored_length, limit, .. } = entry;
        let end = offset.saturating_add(LOCAL_BYTES).saturating_add(*stored_length);
        if end > *limit {
            let next = entries.get(at + 1).map_or("the directory".to_owned(), Entry::shown_name);
            let name = entry.shown_name();
            let what = format!("the entry {name} of the archive reaches to {end}, into {next} at {limit}");
            return Err(malformed(what).at(*offset..end));
        }
    }
    Ok(())
}
