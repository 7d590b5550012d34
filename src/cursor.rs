//! A stretch of a file read field by field, of which nobody knows the end before it is read: a GGUF head,
//! a vocabulary.

use crate::error::{Error, ErrorKind, malformed};
use crate::window::{Stop, Window};

/// Where bytes are missing, at least so many more are asked for: a round trip costs more than they do.
const GROWTH_BYTES: u64 = 1 << 20;

/// Reads fields from a place in the file on, in either byte order.
///
/// Where bytes are missing it stops, and asks for twice as many as are known: so all parses together read
/// no more than three times the file's bytes.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    known: &'a [u8],
    at: usize,
    start: u64,
    limit: u64,
    file_length: Option<u64>,
    section: &'static str,
    /// The byte order of the fields that are read from here on.
    pub(crate) big_endian: bool,
}

impl<'a> Cursor<'a> {
    /// Reads from `start` on, but never more than `limit` bytes. `section` is what errors call them: "the head".
    pub(crate) fn new(window: &'a Window, start: u64, limit: u64, section: &'static str) -> Self {
        let known = window.known_from(start, start.saturating_add(limit));
        Cursor { known, at: 0, start, limit, file_length: window.file_length(), section, big_endian: false }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Stop> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Stop> {
        Ok(u16::from_le_bytes(self.number()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Stop> {
        Ok(u32::from_le_bytes(self.number()?))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Stop> {
        Ok(u64::from_le_bytes(self.number()?))
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    // What is known lies within the limit and the file.
    #[inline]
    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8], Stop> {
        let taken = self.known.get(self.at..).and_then(|rest| rest.get(..usize::try_from(length).ok()?));
        let Some(taken) = taken else { return Err(self.lacking(length)) };
        self.at += taken.len();
        Ok(taken)
    }

    pub(crate) fn utf8(&mut self, length: u64) -> Result<&'a str, Stop> {
        let start = self.position();
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes);
        Ok(text.map_err(|_| malformed(format!("a name in {} is not UTF-8", self.section)).at(start..start + length))?)
    }

    /// Stops unless the next `length` bytes are known: before many fields are read, and anything is allocated
    /// for them, whose number the file only claims.
    pub(crate) fn ensure(&self, length: u64) -> Result<(), Stop> {
        let position = self.position();
        let end = position.saturating_add(length);
        if end - self.start > self.limit {
            let what =
                format!("{} is longer than the {} bytes that weightstream reads of it", self.section, self.limit);
            return Err(Error::new(ErrorKind::Limit, what).at(position..end).into());
        }
        if let Some(file_length) = self.file_length
            && end > file_length
        {
            let what = format!("{} should go on to byte {end} at least, but the file has {file_length}", self.section);
            return Err(Error::new(ErrorKind::Truncated, what).at(position..end).into());
        }
        let known = self.known.len() as u64;
        if end - self.start <= known {
            return Ok(());
        }
        let wanted =
            (self.start + known).saturating_add(known.max(GROWTH_BYTES)).min(self.start.saturating_add(self.limit));
        Err(Stop::Need(self.start..wanted.min(self.file_length.unwrap_or(u64::MAX)).max(end)))
    }

    /// Why so many bytes cannot be taken.
    #[cold]
    fn lacking(&self, length: u64) -> Stop {
        let internal = || Error::new(ErrorKind::Internal, "bytes that are known are not there").into();
        self.ensure(length).err().unwrap_or_else(internal)
    }

    /// Where the next field begins in the file.
    pub(crate) fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    /// The bytes of a number, lowest first.
    #[inline]
    fn number<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = self.array()?;
        if self.big_endian {
            bytes.reverse();
        }
        Ok(bytes)
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn asks_for_twice_what_is_known_but_not_beyond_the_file() {
        let mut window = Window::new(Some(10 << 20));
        let stop = |window: &Window, length| Cursor::new(window, 0, u64::MAX, "it").ensure(length);
        assert_eq!(stop(&window, 4), Err(Stop::Need(0..GROWTH_BYTES)));
        window.insert(0, &vec![0; 6 << 20]);
        assert_eq!(stop(&window, 6 << 20), Ok(()));
        assert_eq!(stop(&window, (6 << 20) + 1), Err(Stop::Need(0..10 << 20)));
        assert!(matches!(stop(&window, (10 << 20) + 1), Err(Stop::Failed(e)) if e.kind == ErrorKind::Truncated));
    }

    #[test]
    fn never_asks_for_more_than_its_limit() {
        let window = Window::new(None);
        let cursor = Cursor::new(&window, 100, 50, "it");
        assert_eq!(cursor.ensure(50), Err(Stop::Need(100..150)));
        assert!(matches!(cursor.ensure(51), Err(Stop::Failed(e)) if e.kind == ErrorKind::Limit));
        assert!(matches!(cursor.ensure(u64::MAX), Err(Stop::Failed(e)) if e.kind == ErrorKind::Limit));
    }

    #[test]
    fn reads_either_byte_order() {
        let window = Window::whole(&[1, 2, 3, 4]);
        let mut cursor = Cursor::new(&window, 0, 4, "it");
        assert_eq!(cursor.u16(), Ok(0x0201));
        cursor.big_endian = true;
        assert_eq!(cursor.u16(), Ok(0x0304));
    }
}
