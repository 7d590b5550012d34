//! The last bytes that a reader received. If no validator proves that the file is unchanged, a resumed request overlaps
//! these bytes: parts of two versions must never be joined.

use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// Number of bytes that a resumed request overlaps: few enough to be negligible compared to a round trip, and far more
/// than two versions of a model's weights have in common by chance.
pub(crate) const OVERLAP_BYTES: u64 = 64 << 10;

/// How often the overlap is halved after failures, so that a resumed request overlaps at least 256 bytes.
pub(crate) const MAX_OVERLAP_HALVINGS: u32 = 8;
pub(crate) const MIN_OVERLAP_BYTES: u64 = OVERLAP_BYTES >> MAX_OVERLAP_HALVINGS;

/// Number of bytes that are kept of each read while the server's ETags prove that the file is unchanged. They are
/// needed only if the server stops sending the ETag, and copying more bytes would slow down the reads.
pub(crate) const OVERLAP_WITH_ETAG_BYTES: u64 = 4 << 10;

/// The last bytes that were read, up to twice [`OVERLAP_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The offset of `bytes` in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// The range of the file that `bytes` holds.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    /// Appends bytes that start at offset `start`. Bytes that are held already are not replaced.
    pub(crate) fn push(&mut self, start: u64, bytes: &[u8]) {
        let end = self.range().end;
        if start > end || self.bytes.is_empty() {
            self.bytes.clear();
            self.start = start;
        }
        let known = self.range().end.saturating_sub(start);
        let new = bytes.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or_default();
        self.bytes.extend_from_slice(new);
        // Bytes are moved at most once per 64 KiB, so that small chunks stay cheap.
        let length = self.bytes.len() as u64;
        if length > 2 * OVERLAP_BYTES {
            let excess = length - OVERLAP_BYTES;
            self.bytes.drain(..excess as usize);
            self.start += excess;
        }
    }

    /// Compares bytes that were received again, at offset `start`, with the bytes that are held.
    ///
    /// # Errors
    /// `CHANGED` if they differ.
    pub(crate) fn compare(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let known = self.range();
        let both = start.max(known.start)..(start + bytes.len() as u64).min(known.end);
        if both.is_empty() {
            return Ok(());
        }
        if part(bytes, start, &both) == part(&self.bytes, known.start, &both) {
            return Ok(());
        }
        Err(changed_bytes(both))
    }
}

/// The error for bytes of `range` that differ from those that the server sent before.
pub(crate) fn changed_bytes(range: Range<u64>) -> Error {
    let what = "the file changed while it was loaded: the server sent different bytes than before";
    let error = Error::new(ErrorKind::Changed, what).at(range);
    error.advise("Load it again. If the error persists, the server mixes versions of the file.")
}

/// The bytes of `range`; `bytes` start at offset `start`.
fn part<'a>(bytes: &'a [u8], start: u64, range: &Range<u64>) -> Option<&'a [u8]> {
    let (first, last) = (range.start.checked_sub(start)?, range.end.checked_sub(start)?);
    bytes.get(usize::try_from(first).ok()?..usize::try_from(last).ok()?)
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    fn bytes(range: Range<u64>) -> Vec<u8> {
        range.map(|at| (at * 7 % 251) as u8).collect()
    }

    #[test]
    fn keeps_the_last_bytes_for_any_chunk_size() {
        for chunk in [1, 1000, 64 << 10, 300 << 10] {
            let (mut tail, mut at) = (Tail::default(), 5);
            while at < 400_000 {
                let range = at..at + chunk;
                tail.push(at, &bytes(range));
                at += chunk;
            }
            let known = tail.range();
            assert_eq!(known.end, at);
            assert!((64 << 10..=128 << 10).contains(&(known.end - known.start)), "{known:?}");
            assert_eq!(tail.bytes, bytes(known));
        }
    }

    #[test]
    fn detects_one_wrong_byte_and_ignores_bytes_outside_the_tail() {
        let mut tail = Tail::default();
        tail.push(1000, &bytes(1000..2000));
        for range in [0..1000, 500..1500, 1200..1300, 1500..2500, 2000..3000] {
            assert_eq!(tail.compare(range.start, &bytes(range.clone())), Ok(()), "{range:?}");
        }
        let mut other = bytes(500..2500);
        other[0] ^= 1;
        other[1999] ^= 1;
        assert_eq!(tail.compare(500, &other), Ok(()));
        other[1499] ^= 1;
        assert_eq!(tail.compare(500, &other).unwrap_err().kind, ErrorKind::Changed);
    }

    #[test]
    fn ignores_bytes_that_are_held_already() {
        let mut tail = Tail::default();
        tail.push(10, &bytes(10..30));
        tail.push(20, &bytes(20..40));
        tail.push(12, &bytes(12..14));
        assert_eq!((tail.range(), tail.bytes.clone()), (10..40, bytes(10..40)));
    }
}
