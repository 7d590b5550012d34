//! Reads tables, vectors and texts of a FlatBuffer, wherever they are in the file.
//!
//! Source: "FlatBuffer Internals" in the documentation of FlatBuffers. A table begins with the signed distance back to
//! its vtable, which has the position of each field in the table. Other objects are at unsigned distances forward, so
//! that following them comes to an end.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::window::{Stop, Window};
use std::ops::Range;

/// The size of the fields of a vtable that precede those of the table: its own size, and that of the table.
const VTABLE_HEAD_BYTES: u64 = 4;

/// A FlatBuffer in a range of the file.
#[derive(Clone, Copy)]
pub(super) struct FlatBuffer<'w> {
    window: &'w Window<'w>,
    start: u64,
    end: u64,
}

/// A table.
#[derive(Clone, Copy)]
pub(super) struct Table<'w> {
    flat: FlatBuffer<'w>,
    /// The offset in the file.
    at: u64,
    vtable: u64,
    vtable_bytes: u64,
}

/// The items of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vector {
    /// The offset of the first item in the file.
    pub(super) start: u64,
    pub(super) count: u64,
    item_bytes: u64,
}

impl<'w> FlatBuffer<'w> {
    /// A FlatBuffer in this range, whose end may be that of any file.
    pub(super) fn new(window: &'w Window<'w>, range: &Range<u64>) -> Self {
        FlatBuffer { window, start: range.start, end: range.end }
    }

    /// The root table.
    pub(super) fn root(self) -> Result<Table<'w>, Stop> {
        self.table(self.start)
    }

    /// The table to which the offset at `at` leads.
    pub(super) fn table(self, at: u64) -> Result<Table<'w>, Stop> {
        self.table_at(self.target(at)?)
    }

    /// The table at an offset of the file.
    pub(super) fn table_at(self, at: u64) -> Result<Table<'w>, Stop> {
        let distance = i32::from_le_bytes(self.array(at)?);
        let vtable = at.checked_add_signed(-i64::from(distance)).filter(|vtable| *vtable >= self.start);
        let vtable =
            vtable.ok_or_else(|| malformed("a table has its description outside the FlatBuffer").at(at..at + 4))?;
        let vtable_bytes = u64::from(u16::from_le_bytes(self.array(vtable)?));
        if vtable_bytes < VTABLE_HEAD_BYTES {
            let what = format!("the description of a table has only {vtable_bytes} bytes");
            return Err(malformed(what).at(vtable..vtable + 2).into());
        }
        Ok(Table { flat: self, at, vtable, vtable_bytes })
    }

    /// The object to which the offset at `at` leads.
    fn target(self, at: u64) -> Result<u64, Stop> {
        let distance = u64::from(u32::from_le_bytes(self.array(at)?));
        Ok(at.saturating_add(distance))
    }

    pub(super) fn bytes(self, range: Range<u64>) -> Result<&'w [u8], Stop> {
        if range.start < self.start || range.end > self.end || range.start > range.end {
            let what =
                format!("an object is outside the FlatBuffer, which has the bytes {} to {}", self.start, self.end);
            return Err(malformed(what).at(range).into());
        }
        self.window.get(range)
    }

    pub(super) fn array<const N: usize>(self, at: u64) -> Result<[u8; N], Stop> {
        let bytes = self.bytes(at..at.saturating_add(N as u64))?;
        bytes.first_chunk().copied().ok_or_else(|| Error::new(ErrorKind::Internal, "a window is too short").into())
    }
}

impl<'w> Table<'w> {
    /// The offset of a field in the file; `None` if it has its default value.
    fn field(&self, number: u16) -> Result<Option<u64>, Stop> {
        let entry = VTABLE_HEAD_BYTES + 2 * u64::from(number);
        if entry + 2 > self.vtable_bytes {
            return Ok(None);
        }
        let distance = u16::from_le_bytes(self.flat.array(self.vtable.saturating_add(entry))?);
        Ok((distance > 0).then(|| self.at.saturating_add(u64::from(distance))))
    }

    pub(super) fn u8(&self, number: u16) -> Result<u8, Stop> {
        let at = self.field(number)?;
        at.map_or(Ok(0), |at| Ok(u8::from_le_bytes(self.flat.array(at)?)))
    }

    pub(super) fn u32(&self, number: u16) -> Result<u32, Stop> {
        let at = self.field(number)?;
        at.map_or(Ok(0), |at| Ok(u32::from_le_bytes(self.flat.array(at)?)))
    }

    pub(super) fn u64(&self, number: u16) -> Result<u64, Stop> {
        let at = self.field(number)?;
        at.map_or(Ok(0), |at| Ok(u64::from_le_bytes(self.flat.array(at)?)))
    }

    pub(super) fn table(&self, number: u16) -> Result<Option<Table<'w>>, Stop> {
        self.field(number)?.map(|at| self.flat.table(at)).transpose()
    }

    /// A vector of items of this size, which are not checked to be in the file.
    pub(super) fn vector(&self, number: u16, item_bytes: u64) -> Result<Option<Vector>, Stop> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        let at = self.flat.target(at)?;
        let count = u64::from(u32::from_le_bytes(self.flat.array(at)?));
        let vector = Vector { start: at.saturating_add(4), count, item_bytes };
        if vector.range().end > self.flat.end {
            let what = format!("a vector of {count} items of {item_bytes} bytes ends behind the FlatBuffer");
            return Err(malformed(what).at(at..at.saturating_add(4)).into());
        }
        Ok(Some(vector))
    }

    /// A vector of tables.
    pub(super) fn tables(&self, number: u16) -> Result<Tables<'w>, Stop> {
        Ok(Tables { flat: self.flat, vector: self.vector(number, 4)? })
    }

    /// The range of a text in the file, of at most `limit` bytes.
    pub(super) fn text(&self, number: u16, limit: u64) -> Result<Option<&'w str>, Stop> {
        let Some(vector) = self.vector(number, 1)? else { return Ok(None) };
        if vector.count > limit {
            let what = format!("a text has {} bytes; the limit is {limit}", vector.count);
            return Err(Error::new(ErrorKind::Limit, what).at(vector.range()).into());
        }
        let text = std::str::from_utf8(self.flat.bytes(vector.range())?);
        text.map(Some).map_err(|_| malformed("a text is not UTF-8").at(vector.range()).into())
    }

    pub(super) fn flat(&self) -> FlatBuffer<'w> {
        self.flat
    }
}

/// A vector of tables.
#[derive(Clone, Copy)]
pub(super) struct Tables<'w> {
    flat: FlatBuffer<'w>,
    vector: Option<Vector>,
}

impl<'w> Tables<'w> {
    pub(super) fn count(&self) -> u64 {
        self.vector.map_or(0, |vector| vector.count)
    }

    /// The offset of a table in the file; `None` if there are fewer.
    pub(super) fn offset(&self, number: u64) -> Result<Option<u64>, Stop> {
        let Some(vector) = self.vector.filter(|vector| number < vector.count) else { return Ok(None) };
        self.flat.target(vector.start + 4 * number).map(Some)
    }

    pub(super) fn get(&self, number: u64) -> Result<Option<Table<'w>>, Stop> {
        self.offset(number)?.map(|at| self.flat.table_at(at)).transpose()
    }
}

impl Vector {
    /// The range of the items in the file.
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.count.saturating_mul(self.item_bytes))
    }
}
