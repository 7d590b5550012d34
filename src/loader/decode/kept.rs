//! The buffer that a component's decoded bytes go into.

use crate::error::{Result, malformed};
use crate::index::Component;
use crate::source::Buffer;
use std::ops::Range;

/// A compressed component's buffer begins with at most so many bytes for each stored one, and grows with what really
/// comes: LZ4 cannot do better, and zstd does only for what is nearly all the same. Stops a forged length that would
/// allocate gigabytes for a file of kilobytes.
const FIRST_RATIO: u64 = 256;

/// The most that data of unstated length can decode to: only Zstandard has such.
fn max_unstated(stored: u64) -> u64 {
    #[cfg(feature = "zstd")]
    return crate::codec::zstd::max_unstated(stored);
    #[cfg(not(feature = "zstd"))]
    stored
}

/// The buffer for those of a component's decoded bytes that are kept.
#[derive(Debug)]
pub(crate) struct Kept<B> {
    buffer: B,
    range: Range<u64>,
}

impl<B: Buffer> Kept<B> {
    /// A buffer for the decoded bytes `range` of `component`: its end is `u64::MAX` where nobody knows how many come.
    pub(crate) fn allocate(component: &Component, range: Range<u64>) -> Result<Self> {
        let stored = component.range.end - component.range.start;
        let wanted = range.end - range.start;
        let is_certain = component.encoding.keeps_positions();
        let most = match component.decoded_length {
            None => component.max_decoded_length.unwrap_or(u64::MAX).min(max_unstated(stored)),
            Some(_) => u64::MAX,
        };
        let first = if is_certain { wanted } else { wanted.min(stored.saturating_mul(FIRST_RATIO)).min(most) };
        Ok(Kept { buffer: B::allocate(first)?, range })
    }

    /// As [`Kept::allocate`], but with a buffer that is as long as `range`.
    pub(crate) fn given(buffer: B, range: Range<u64>) -> Self {
        Kept { buffer, range }
    }

    /// The buffer, for bytes that need no decoding.
    pub(crate) fn buffer(&mut self) -> &mut B {
        &mut self.buffer
    }

    /// Writes what is to be kept of `decoded`, which begins at decoded byte `start`.
    pub(crate) fn write(&mut self, start: u64, decoded: &[u8]) -> Result<()> {
        let first = self.range.start.max(start);
        let last = self.range.end.min(start + decoded.len() as u64);
        if first >= last {
            return Ok(());
        }
        let kept = decoded.get((first - start) as usize..(last - start) as usize).unwrap_or_default();
        let (needed, length) = (last - self.range.start, self.buffer.byte_length());
        if needed > length {
            self.buffer.resize(needed.max(length.saturating_mul(2)).min(self.range.end - self.range.start))?;
        }
        self.buffer.write(first - self.range.start, kept)
    }

    /// The buffer, once the decoded bytes up to `decoded_end` were written.
    ///
    /// # Errors
    /// `FORMAT` where those that are to be kept did not all come.
    pub(crate) fn finish(mut self, component: &Component, decoded_end: u64) -> Result<B> {
        if component.decoded_length.is_none() && self.range.end == u64::MAX {
            self.range.end = decoded_end;
        }
        if !self.range.is_empty() && decoded_end < self.range.end {
            let what = format!("its bytes decode to {decoded_end} bytes, but {} are wanted", self.range.end);
            return Err(malformed(what));
        }
        let length = self.range.end - self.range.start;
        if self.buffer.byte_length() != length {
            self.buffer.resize(length)?;
        }
        Ok(self.buffer)
    }
}
