//! Heaps: the names of a group's links, and the texts of attributes.

use super::source::Source;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::window::Stop;

/// The maximum length of a name.
const MAX_NAME_BYTES: usize = 64 << 10;

/// The maximum length of the names of a group.
const MAX_HEAP_BYTES: u64 = 256 << 20;

/// The maximum number of objects of a global heap that are looked at. Collections have 4 KiB, unless an object is
/// larger.
const MAX_OBJECTS: usize = 4096;

/// The names of a group with a symbol table.
pub(super) struct LocalHeap<'w> {
    source: Source<'w>,
    /// The address and the length of the names.
    names: (u64, u64),
}

impl<'w> LocalHeap<'w> {
    pub(super) fn read(source: Source<'w>, address: u64) -> Result<Self, Stop> {
        let head = 8 + 2 * source.length_bytes + source.offset_bytes;
        let mut fields = source.fields(source.at(address, head as u64)?);
        fields.signature(b"HEAP")?;
        fields.take(4)?;
        let (length, _) = (fields.length()?, fields.length()?);
        let start = fields.address()?.ok_or_else(|| malformed("a group has no names"))?;
        if length > MAX_HEAP_BYTES {
            let what = format!("the names of a group have {length} bytes; the limit is {MAX_HEAP_BYTES}");
            return Err(Error::new(ErrorKind::Limit, what).into());
        }
        Ok(LocalHeap { source, names: (start, length) })
    }

    /// The name at an offset, which ends with a zero.
    pub(super) fn name(&self, offset: u64) -> Result<&'w str, Stop> {
        let (start, length) = self.names;
        let left = length.checked_sub(offset).ok_or_else(|| malformed("a name is behind the names of its group"))?;
        // Names are short: a first look at some bytes is usually enough.
        for wanted in [256, MAX_NAME_BYTES as u64 + 1] {
            let bytes = self.source.at(start.saturating_add(offset), left.min(wanted))?;
            if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
                let name = bytes.get(..end).unwrap_or_default();
                return std::str::from_utf8(name).map_err(|_| malformed("a name is not UTF-8").into());
            }
        }
        Err(malformed(format!("a name does not end within {MAX_NAME_BYTES} bytes")).into())
    }
}

/// An object of a global heap: the content of a text of variable length.
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `FORMAT` if there is no such object; `LIMIT` for more than `max` bytes.
pub(super) fn global<'w>(source: Source<'w>, collection: u64, index: u32, max: u64) -> Result<&'w [u8], Stop> {
    let head = 8 + source.length_bytes as u64;
    let mut fields = source.fields(source.at(collection, head)?);
    fields.signature(b"GCOL")?;
    fields.take(4)?;
    let end = collection.saturating_add(fields.length()?);
    let (mut at, object_head) = (collection.saturating_add(head), 8 + source.length_bytes as u64);
    for _ in 0..MAX_OBJECTS {
        if at.saturating_add(object_head) > end {
            break;
        }
        let mut fields = source.fields(source.at(at, object_head)?);
        let found = u32::from(fields.u16()?);
        fields.take(6)?;
        let length = fields.length()?;
        let data = at.saturating_add(object_head);
        if found == index && index > 0 {
            if length > max || data.saturating_add(length) > end {
                let what = format!("a text of {length} bytes is longer than {max} bytes or its heap");
                return Err(Error::new(ErrorKind::Limit, what).into());
            }
            return source.at(data, length);
        }
        if found == 0 {
            break; // free space, up to the end
        }
        at = data.saturating_add(length.checked_next_multiple_of(8).unwrap_or(u64::MAX));
    }
    Err(malformed(format!("a global heap has no object {index}")).into())
}
