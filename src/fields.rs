//! Reads the little-endian fields of a section of a file. Errors include the byte range.

use crate::error::{Error, Result, malformed};
use std::ops::Range;

/// Reads the fields of `bytes`, which start at offset `base` of the file.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    section: &'static str,
}

impl<'a> Fields<'a> {
    /// `section` names the bytes in error messages, such as "the tensor index".
    pub(crate) fn new(bytes: &'a [u8], base: u64, section: &'static str) -> Self {
        Fields { bytes, at: 0, base, section }
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let ended = self.ended(N as u64);
        self.take(N)?.try_into().map_err(|_| ended)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).ok_or_else(|| self.ended(length as u64))?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| self.ended(length as u64))?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn utf8(&mut self, length: usize) -> Result<&'a str> {
        let start = self.position();
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes)
            .map_err(|_| malformed(format!("a name in {} is not UTF-8", self.section)).at(start..start + length as u64))
    }

    /// The offset of the next field in the file.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The range from `start` to the current position, for errors about fields that were just read.
    pub(crate) fn since(&self, start: u64) -> Range<u64> {
        start..self.position()
    }

    fn ended(&self, wanted: u64) -> Error {
        let end = self.base + self.bytes.len() as u64;
        malformed(format!("{} ends at byte {end}, in the middle of a field", self.section))
            .at(self.position()..self.position().saturating_add(wanted))
    }
}
