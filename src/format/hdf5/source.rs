//! The bytes of an HDF5 file, by their addresses.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::window::{Stop, Window};
use std::cell::Cell;
use std::ops::Range;

/// The bytes that may be read beyond those of the file, before it counts as malicious: structures of a file do not
/// overlap, except those that are read again when more bytes are known.
const BASE_WORK_BYTES: u64 = 64 << 20;

/// How often each byte of the file may be read.
const WORK_BYTES_PER_BYTE: u64 = 8;

/// The number of bytes that are requested at least.
const READ_BYTES: u64 = 2048;

/// The work that may still be done. Prevents links, continuations and names that overlap from taking hours.
#[derive(Debug)]
pub(super) struct Work(Cell<u64>);

impl Work {
    pub(super) fn new(file_length: u64) -> Self {
        Work(Cell::new(BASE_WORK_BYTES.saturating_add(file_length.saturating_mul(WORK_BYTES_PER_BYTE))))
    }

    fn charge(&self, bytes: u64) -> Result<()> {
        match self.0.get().checked_sub(bytes) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => {
                let what = "the structures of the file overlap, so that reading them would take too long";
                Err(Error::new(ErrorKind::Limit, what).advise("The file may be damaged or malicious."))
            }
        }
    }
}

/// An HDF5 file in a range of the file, and the sizes of its numbers.
#[derive(Clone, Copy)]
pub(super) struct Source<'w> {
    pub(super) window: &'w Window<'w>,
    pub(super) work: &'w Work,
    /// Where address 0 is.
    pub(super) base: u64,
    /// The end of the file, or of the member of an archive.
    pub(super) end: u64,
    /// The size of addresses.
    pub(super) offset_bytes: usize,
    /// The size of lengths.
    pub(super) length_bytes: usize,
}

impl<'w> Source<'w> {
    /// The bytes from an address on.
    pub(super) fn at(self, address: u64, length: u64) -> Result<&'w [u8], Stop> {
        self.work.charge(length.saturating_add(16))?;
        let range = self.range(address, length)?;
        self.window.get(range).map_err(|stop| match stop {
            // Structures are small, and near to others.
            Stop::Need(Range { start, end }) => {
                Stop::Need(start..end.max(start.saturating_add(READ_BYTES)).min(self.end))
            }
            other => other,
        })
    }

    /// The range of the file that an address and a length stand for.
    pub(super) fn range(self, address: u64, length: u64) -> Result<Range<u64>> {
        let start = self.base.checked_add(address);
        let range = start.and_then(|start| Some(start..start.checked_add(length)?));
        range.filter(|range| range.end <= self.end).ok_or_else(|| {
            let what = format!("{length} bytes at the address {address} are behind the end of the HDF5 file");
            Error::new(ErrorKind::Truncated, what)
        })
    }

    /// A reader of the fields of a structure.
    pub(super) fn fields<'a>(self, bytes: &'a [u8]) -> Numbers<'a> {
        Numbers { rest: bytes, offset_bytes: self.offset_bytes, length_bytes: self.length_bytes }
    }
}

/// The fields of a structure, in order.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    rest: &'a [u8],
    offset_bytes: usize,
    length_bytes: usize,
}

impl<'a> Numbers<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            malformed(format!("a structure of the HDF5 file ends {} bytes too early", count - self.rest.len()))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    /// A little-endian number of `bytes` bytes, at most 8.
    pub(super) fn number(&mut self, bytes: usize) -> Result<u64> {
        let mut number = [0; 8];
        let taken = self.take(bytes.min(8))?;
        number.iter_mut().zip(taken).for_each(|(to, from)| *to = *from);
        Ok(u64::from_le_bytes(number))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes.first().copied().unwrap_or_default())
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        self.number(2).map(|number| number as u16)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.number(4).map(|number| number as u32)
    }

    pub(super) fn length(&mut self) -> Result<u64> {
        self.number(self.length_bytes)
    }

    /// An address; `None` if it is undefined.
    pub(super) fn address(&mut self) -> Result<Option<u64>> {
        let undefined = u64::MAX.checked_shr(64 - 8 * self.offset_bytes as u32).unwrap_or(u64::MAX);
        self.number(self.offset_bytes).map(|address| (address != undefined).then_some(address))
    }

    pub(super) fn signature(&mut self, expected: &[u8]) -> Result<()> {
        match self.take(expected.len())? {
            found if found == expected => Ok(()),
            found => {
                let (found, expected) = (found.escape_ascii(), expected.escape_ascii());
                Err(malformed(format!("a structure of the HDF5 file begins with `{found}` instead of `{expected}`")))
            }
        }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
