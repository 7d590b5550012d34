//! The head of a file, read field by field: nothing says how long it is.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind};
use crate::window::{Stop, Window};

/// The largest vocabularies make heads of some 20 MB. Stops a count that would make the reader fetch tensors as a head.
pub const MAX_HEAD_BYTES: u64 = 128 << 20;

/// The head as it is read.
pub(super) struct Head<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) version: u32,
    pub(super) warnings: Vec<String>,
}

impl<'a> Head<'a> {
    /// Reads the magic and the version, which tells the byte order.
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

    /// A count or a length: version 1 has 32 bits for it.
    #[inline]
    pub(super) fn count(&mut self) -> Result<u64, Stop> {
        if self.version == 1 { self.cursor.u32().map(u64::from) } else { self.cursor.u64() }
    }

    /// Bytes that such a count takes.
    pub(super) fn count_bytes(&self) -> u64 {
        if self.version == 1 { 4 } else { 8 }
    }

    /// The bytes of a string. A vocabulary has hundreds of thousands.
    #[inline]
    pub(super) fn string(&mut self) -> Result<&'a [u8], Stop> {
        let length = self.count()?;
        self.cursor.take(length)
    }

    /// A name, which must be UTF-8.
    pub(super) fn name(&mut self) -> Result<&'a str, Stop> {
        let length = self.count()?;
        self.cursor.utf8(length)
    }
}
