//! The last bytes that a reading received. A resumed request overlaps them where no validator proves that the file is
//! still the same version: halves of two versions must never be joined.

use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// How many bytes a resumed request overlaps: few enough to cost nothing beside a round trip, and far more than two
/// versions of a model's weights have in common by chance.
pub(crate) const OVERLAP_BYTES: u64 = 64 << 10;

/// How many bytes are kept of each read while the server proves by its ETags that the file is the same. They are needed
/// only if it stops to do so, and copying more of them would slow down the reads.
pub(crate) const OVERLAP_OF_PROVEN_BYTES: u64 = 4 << 10;

/// The last bytes that were read, up to twice [`OVERLAP_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Where `bytes` begin in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// The bytes of the file that are known here.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    /// Takes bytes that begin at `start`. What is known already is left as it is.
    pub(crate) fn push(&mut self, start: u64, bytes: &[u8]) {
        let end = self.range().end;
        if start > end || self.bytes.is_empty() {
            self.bytes.clear();
            self.start = start;
        }
        let known = self.range().end.saturating_sub(start);
        let new = bytes.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or_default();
        self.bytes.extend_from_slice(new);
        // Moved at most once for each 64 KiB, so that small chunks stay cheap.
        let length = self.bytes.len() as u64;
        if length > 2 * OVERLAP_BYTES {
            let excess = length - OVERLAP_BYTES;
            self.bytes.drain(..excess as usize);
            self.start += excess;
        }
    }

    /// Compares bytes that were received again, from `start` on, with those that are known.
    ///
    /// # Errors
    /// `CHANGED` where they differ.
    pub(crate) fn compare(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let known = self.range();
        let both = start.max(known.start)..(start + bytes.len() as u64).min(known.end);
        if both.is_empty() {
            return Ok(());
        }
        if part(bytes, start, &both) == part(&self.bytes, known.start, &both) {
            return Ok(());
        }
        let what = "the file changed while it was loaded: the server sends other bytes than before";
        let error = Error::new(ErrorKind::Changed, what).at(both);
        Err(error.advise("Load it again. If that does not help, the server mixes versions of the file."))
    }
}

/// The bytes of `range`, of those that begin at `start`.
fn part<'a>(bytes: &'a [u8], start: u64, range: &Range<u64>) -> Option<&'a [u8]> {
    let (first, last) = (range.start.checked_sub(start)?, range.end.checked_sub(start)?);
    bytes.get(usize::try_from(first).ok()?..usize::try_from(last).ok()?)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    fn bytes(range: Range<u64>) -> Vec<u8> {
        range.map(|at| (at * 7 % 251) as u8).collect()
    }

    #[test]
    fn keeps_the_last_bytes_whatever_the_chunks() {
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
    fn finds_one_wrong_byte_and_ignores_what_it_does_not_know() {
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
    fn bytes_that_come_again_are_not_kept_twice() {
        let mut tail = Tail::default();
        tail.push(10, &bytes(10..30));
        tail.push(20, &bytes(20..40));
        tail.push(12, &bytes(12..14));
        assert_eq!((tail.range(), tail.bytes.clone()), (10..40, bytes(10..40)));
    }
}
