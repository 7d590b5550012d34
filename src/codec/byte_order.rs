//! Converts big-endian elements to little-endian incrementally.

use crate::error::{Result, malformed};

/// The size of the conversion buffer: converting a tensor does not need a second copy of it.
const SCRATCH_BYTES: usize = 16 << 10;

/// Converts elements of 2, 4 or 8 bytes, from chunks of any length.
#[derive(Debug)]
pub struct BigEndian {
    width: usize,
    /// The bytes of an incomplete element.
    pending: Vec<u8>,
    scratch: Vec<u8>,
}

impl BigEndian {
    /// Creates a decoder of elements of `width` bytes. Elements of width 1 are unchanged.
    pub fn new(width: usize) -> Self {
        BigEndian { width: width.max(1), pending: Vec::new(), scratch: Vec::new() }
    }

    /// See [`Decoder::push`](super::Decoder::push).
    ///
    /// # Errors
    /// Errors of `emit`.
    pub fn push(&mut self, mut input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if !self.pending.is_empty() {
            let (completing, rest) = input.split_at(input.len().min(self.width - self.pending.len()));
            self.pending.extend_from_slice(completing);
            input = rest;
            if self.pending.len() < self.width {
                return Ok(());
            }
            self.pending.reverse();
            emit(&self.pending)?;
            self.pending.clear();
        }
        let (whole, partial) = input.split_at(input.len() - input.len() % self.width);
        for chunk in whole.chunks(SCRATCH_BYTES - SCRATCH_BYTES % self.width) {
            self.scratch.clear();
            self.scratch.extend_from_slice(chunk);
            self.scratch.chunks_exact_mut(self.width).for_each(<[u8]>::reverse);
            emit(&self.scratch)?;
        }
        self.pending.extend_from_slice(partial);
        Ok(())
    }

    /// See [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if the last element is incomplete.
    pub fn finish(&self) -> Result<()> {
        if self.pending.is_empty() { Ok(()) } else { Err(malformed("its last element is incomplete")) }
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(width: usize, chunks: &[&[u8]]) -> Result<Vec<u8>> {
        let (mut decoder, mut out) = (BigEndian::new(width), Vec::new());
        for chunk in chunks {
            decoder.push(chunk, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        decoder.finish().map(|()| out)
    }

    #[test]
    fn reverses_each_element() {
        let stored: Vec<u8> = [1.5f32, -2.25].iter().flat_map(|x| x.to_be_bytes()).collect();
        let wanted: Vec<u8> = [1.5f32, -2.25].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(decode(4, &[&stored]), Ok(wanted));
        assert_eq!(decode(1, &[b"abc"]), Ok(b"abc".to_vec()));
    }

    #[test]
    fn rejects_an_incomplete_element() {
        assert!(decode(4, &[&[0; 7]]).is_err());
    }

    proptest! {
        #[test]
        fn the_output_does_not_depend_on_the_chunks(
            elements in proptest::collection::vec(any::<u64>(), 0..5000),
            cuts in proptest::collection::vec(0usize..20_000, 0..9),
        ) {
            let stored: Vec<u8> = elements.iter().flat_map(|x| x.to_be_bytes()).collect();
            let wanted: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
            let (mut chunks, mut rest) = (Vec::new(), &stored[..]);
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            prop_assert_eq!(decode(8, &chunks), Ok(wanted));
        }
    }
}
