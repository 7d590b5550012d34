//! Reads the head of a file field by field: the file does not state its length.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind};
use crate::window::{Stop, Window};

/// The maximum length of a head. The largest vocabularies result in heads of about 20 MB. Prevents an invalid count
/// from making the reader fetch tensor data as the head.
pub(crate) const MAX_HEAD_BYTES: u64 = 128 << 20;

/// A reader of the head.
pub(super) struct Head<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) version: u32,
    pub(super) warnings: Vec<String>,
}

impl<'a> Head<'a> {
    /// Reads the magic and the version, and detects the byte order from the version.
    pub(super) fn open(window: &'a Window) -> Result<Self, Stop> {
        let mut cursor = Cursor::new(window, 0, MAX_HEAD_BYTES, "the head");
        cursor.array::<4>()?;
        let mut version = cursor.u32()?;
        if version & 0xffff == 0 {
            cursor.big_endian = true;
            version = version.swap_bytes();
        }
        if !(1..=3).contains(&version) {
            let what = format!("GGUF version {version}; weightstream reads versions 1 to 3");
            return Err(Error::new(ErrorKind::Unsupported, what).at(4..8).into());
        }
        Ok(Head { cursor, version, warnings: Vec::new() })
    }

    /// Reads a count or a length: 32 bits in version 1, else 64 bits.
    #[inline]
    pub(super) fn count(&mut self) -> Result<u64, Stop> {
        if self.version == 1 { self.cursor.u32().map(u64::from) } else { self.cursor.u64() }
    }

    /// Returns the size in bytes of a count or a length.
    pub(super) fn count_bytes(&self) -> u64 {
        if self.version == 1 { 4 } else { 8 }
    }

    /// Reads the bytes of a string. A vocabulary has hundreds of thousands of strings.
    #[inline]
    pub(super) fn string(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.count()?;
        self.cursor.take(length)
    }

    /// Reads a name, which must be UTF-8.
    pub(super) fn name(&mut self) -> Result<&'a str, Stop> {
        let length = self.count()?;
        self.cursor.utf8(length)
    }
}
