//! Reads the bits of a stream from its last byte to its first: a few of them at a time, where speed does not matter.

use super::Malformed;

/// A stream of bits that is read from the end. It ends with a 1 and padding of zeros, which are not part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackwardBits<'a> {
    pub(super) bytes: &'a [u8],
    /// The number of bits that are not consumed.
    pub(super) left: usize,
}

impl<'a> BackwardBits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        match bytes.last() {
            Some(&last) if last != 0 => {
                let padding = last.leading_zeros() as usize + 1;
                Ok(BackwardBits { bytes, left: bytes.len() * 8 - padding })
            }
            _ => Err(Malformed("a stream without the 1 that marks its end")),
        }
    }

    /// Returns the next `count` bits, 1 to 16. Those beyond the start are zeros.
    pub(super) fn peek(&self, count: u32) -> usize {
        let end = self.left.div_ceil(8);
        let window = match self.bytes.get(..end).and_then(|bytes| bytes.last_chunk()) {
            Some(last) => u32::from_le_bytes(*last),
            None => {
                let byte = |back| end.checked_sub(back).and_then(|at| self.bytes.get(at)).copied().unwrap_or_default();
                u32::from_be_bytes([byte(1), byte(2), byte(3), 0])
            }
        };
        let window = window << (end * 8 - self.left);
        (window >> (32 - count)) as usize
    }

    /// Consumes bits. Returns `None` if fewer are left.
    pub(super) fn consume(&mut self, count: u32) -> Option<()> {
        self.left = self.left.checked_sub(count as usize)?;
        Some(())
    }
}
