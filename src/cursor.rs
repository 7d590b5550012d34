//! Reads a section of a file field by field, when the length of the section is not known in advance: a GGUF header, a
//! vocabulary.

use crate::error::{Error, ErrorKind, malformed};
use crate::window::{Stop, Window};

/// Minimum number of further bytes to request when bytes are missing: a round trip takes longer than reading them.
const GROWTH_BYTES: u64 = 1 << 20;

/// Reads fields from an offset of the file on, in either byte order.
///
/// If bytes are missing, it stops and requests twice as many bytes as are known. All parses together therefore read at
/// most three times the file's bytes.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    known: &'a [u8],
    at: usize,
    start: u64,
    limit: u64,
    file_length: Option<u64>,
    section: &'static str,
    /// The byte order of the fields that are read next.
    pub(crate) big_endian: bool,
}

impl<'a> Cursor<'a> {
    /// Reads from `start` on, at most `limit` bytes. `section` names the bytes in error messages, such as "the head".
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

    // The known bytes are within the limit and within the file.
    #[inline]
    pub(crate) fn take(&mut self, length: u64) -> Result<&'a [u8], Stop> {
        let taken = self.known.get(self.at..).and_then(|rest| rest.get(..usize::try_from(length).ok()?));
        let Some(taken) = taken else { return Err(self.missing(length)) };
        self.at += taken.len();
        Ok(taken)
    }

    pub(crate) fn utf8(&mut self, length: u64) -> Result<&'a str, Stop> {
        let start = self.position();
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes);
        Ok(text.map_err(|_| malformed(format!("a name in {} is not UTF-8", self.section)).at(start..start + length))?)
    }

    /// Stops unless the next `length` bytes are known. Call it before reading or allocating many fields whose number
    /// the file states.
    pub(crate) fn ensure(&self, length: u64) -> Result<(), Stop> {
        let position = self.position();
        let end = position.saturating_add(length);
        if end - self.start > self.limit {
            let what = format!("{} is longer than the limit of {} bytes", self.section, self.limit);
            return Err(Error::new(ErrorKind::Limit, what).at(position..end).into());
        }
        if let Some(file_length) = self.file_length
            && end > file_length
        {
            let what = format!("{} extends at least to byte {end}, but the file has {file_length} bytes", self.section);
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

    /// The reason why `length` bytes cannot be read.
    #[cold]
    fn missing(&self, length: u64) -> Stop {
        let internal = || Error::new(ErrorKind::Internal, "known bytes are missing").into();
        self.ensure(length).err().unwrap_or_else(internal)
    }

    /// The offset of the next field in the file.
    pub(crate) fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    /// The bytes of a number, least significant first.
    #[inline]
    fn number<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = self.array()?;
        if self.big_endian {
            bytes.reverse();
        }
        Ok(bytes)
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn requests_twice_the_known_bytes_within_the_file() {
        let mut window = Window::new(Some(10 << 20));
        let stop = |window: &Window, length| Cursor::new(window, 0, u64::MAX, "it").ensure(length);
        assert_eq!(stop(&window, 4), Err(Stop::Need(0..GROWTH_BYTES)));
        window.insert(0, &vec![0; 6 << 20]);
        assert_eq!(stop(&window, 6 << 20), Ok(()));
        assert_eq!(stop(&window, (6 << 20) + 1), Err(Stop::Need(0..10 << 20)));
        assert!(matches!(stop(&window, (10 << 20) + 1), Err(Stop::Failed(e)) if e.kind == ErrorKind::Truncated));
    }

    #[test]
    fn never_requests_more_than_the_limit() {
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
