//! The buffer for a component's decoded bytes.

use crate::buffer::Buffer;
use crate::error::{Result, malformed};
use crate::index::Component;
use std::ops::Range;

/// Maximum ratio of the initial buffer length to the stored length of a compressed component. The buffer grows as more
/// bytes are decoded. LZ4 cannot exceed this ratio, and zstd exceeds it only for very repetitive data. The limit stops
/// a forged length that would allocate gigabytes for a file of kilobytes.
const INITIAL_RATIO: u64 = 256;

/// Maximum decoded length of data that does not state its decoded length. Only Zstandard has such data.
fn max_unstated(stored: u64) -> u64 {
    #[cfg(feature = "zstd")]
    return crate::codec::zstd::max_unstated(stored);
    #[cfg(not(feature = "zstd"))]
    stored
}

/// The buffer for a range of a component's decoded bytes.
#[derive(Debug)]
pub(crate) struct OutputBuffer<B> {
    buffer: B,
    range: Range<u64>,
}

impl<B: Buffer> OutputBuffer<B> {
    /// Allocates a buffer for the decoded bytes `range` of `component`. The end of `range` is `u64::MAX` if the decoded
    /// length is unknown.
    pub(crate) fn allocate(component: &Component, range: Range<u64>) -> Result<Self> {
        let stored = component.range.end - component.range.start;
        let wanted = range.end - range.start;
        let is_certain = component.encoding.keeps_positions();
        let max = match component.decoded_length {
            None => component.max_decoded_length.unwrap_or(u64::MAX).min(max_unstated(stored)),
            Some(_) => u64::MAX,
        };
        let initial = if is_certain { wanted } else { wanted.min(stored.saturating_mul(INITIAL_RATIO)).min(max) };
        Ok(OutputBuffer { buffer: B::allocate(initial)?, range })
    }

    /// Uses the caller's buffer, whose length is that of `range`.
    pub(crate) fn given(buffer: B, range: Range<u64>) -> Self {
        OutputBuffer { buffer, range }
    }

    /// The buffer, to write bytes that need no decoding.
    pub(crate) fn buffer(&mut self) -> &mut B {
        &mut self.buffer
    }

    /// Writes the part of `decoded` that is in the range. `decoded` starts at offset `start` of the decoded component.
    pub(crate) fn write(&mut self, start: u64, decoded: &[u8]) -> Result<()> {
        let first = self.range.start.max(start);
        let last = self.range.end.min(start + decoded.len() as u64);
        if first >= last {
            return Ok(());
        }
        let new = decoded.get((first - start) as usize..(last - start) as usize).unwrap_or_default();
        let (needed, length) = (last - self.range.start, self.buffer.byte_length());
        if needed > length {
            self.buffer.resize(needed.max(length.saturating_mul(2)).min(self.range.end - self.range.start))?;
        }
        self.buffer.write(first - self.range.start, new)
    }

    /// Returns the buffer after the decoded bytes up to `decoded_end` were written.
    ///
    /// # Errors
    /// `FORMAT` if decoded bytes are missing.
    pub(crate) fn finish(mut self, component: &Component, decoded_end: u64) -> Result<B> {
        if component.decoded_length.is_none() && self.range.end == u64::MAX {
            self.range.end = decoded_end;
        }
        if !self.range.is_empty() && decoded_end < self.range.end {
            let what = format!("its data decodes to {decoded_end} bytes, but {} are needed", self.range.end);
            return Err(malformed(what));
        }
        let length = self.range.end - self.range.start;
        if self.buffer.byte_length() != length {
            self.buffer.resize(length)?;
        }
        Ok(self.buffer)
    }
}
