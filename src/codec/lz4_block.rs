//! One LZ4 block of any length, preceded by its decoded length, as the crate `lz4_flex` writes it
//! (`compress_prepend_size`). Old APR files are compressed as one such block.
//!
//! A match refers back at most 64 KiB. The block is therefore decoded incrementally, and only this window is buffered.

use super::lz4::check_lengths;
use crate::error::{Result, malformed};
use crate::index::Component;

/// The maximum offset of a match, which has 16 bits.
const MAX_OFFSET: usize = (1 << 16) - 1;

/// Decoded bytes are emitted in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// A length of 15 continues in the following bytes.
const LONG: u8 = 15;

/// The minimum match length, which is subtracted from stored lengths.
const MIN_MATCH: u64 = 4;

/// Decodes one block from chunks of any length.
#[derive(Debug)]
pub struct Lz4Block {
    stored_length: u64,
    stored_left: u64,
    decoded_length: u64,
    decoded_left: u64,
    step: Step,
    /// The window that matches refer to, followed by bytes that have not been emitted.
    decoded: Vec<u8>,
    emitted: usize,
}

/// The next step of the decoder.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The decoded length, of which `have` bytes are available.
    Prefix {
        bytes: [u8; 4],
        have: usize,
    },
    Token,
    LiteralLength {
        length: u64,
        token: u8,
    },
    Literals {
        left: u64,
        token: u8,
    },
    Offset {
        token: u8,
    },
    OffsetHigh {
        low: u8,
        token: u8,
    },
    MatchLength {
        length: u64,
        offset: usize,
    },
    Match {
        left: u64,
        offset: usize,
    },
}

impl Lz4Block {
    /// Creates the decoder of a component.
    pub fn of(component: &Component) -> Self {
        let stored = component.range.end.saturating_sub(component.range.start);
        Self::new(stored, component.decoded_length.unwrap_or(0))
    }

    /// Creates a decoder of `stored` bytes that must decode to `decoded` bytes.
    pub fn new(stored: u64, decoded: u64) -> Self {
        Lz4Block {
            stored_length: stored,
            stored_left: stored,
            decoded_length: decoded,
            decoded_left: decoded,
            step: Step::Prefix { bytes: [0; 4], have: 0 },
            decoded: Vec::new(),
            emitted: 0,
        }
    }

    /// See [`Decoder::push`](super::Decoder::push).
    ///
    /// # Errors
    /// `FORMAT` if the block is damaged, or there are more bytes than passed to `new`; errors of `emit`.
    pub fn push(&mut self, mut input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        loop {
            let mut has_emitted = false;
            let taken = self.push_some(input, &mut |bytes| {
                has_emitted = true;
                emit(bytes)
            })?;
            input = input.get(taken..).unwrap_or_default();
            if input.is_empty() && !has_emitted {
                return Ok(());
            }
        }
    }

    /// See [`Decoder::push_some`](super::Decoder::push_some).
    ///
    /// # Errors
    /// As for [`Lz4Block::push`].
    pub fn push_some(&mut self, all: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        if all.len() as u64 > self.stored_left {
            return Err(malformed("there are more bytes than its LZ4 block should have"));
        }
        let mut input = all;
        while self.ready() < PIECE_BYTES && self.take(&mut input)? {}
        let taken = all.len() - input.len();
        self.stored_left -= taken as u64;
        if self.ready() >= PIECE_BYTES || (self.is_at_end() && self.ready() > 0) {
            let ready = self.decoded.get(self.emitted..).unwrap_or_default();
            emit(ready)?;
            self.decoded.drain(..self.decoded.len().saturating_sub(MAX_OFFSET));
            self.emitted = self.decoded.len();
        }
        Ok(taken)
    }

    /// See [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if stored or decoded bytes are missing.
    pub fn finish(&self) -> Result<()> {
        if !self.is_at_end() {
            return Err(malformed("its LZ4 block is incomplete"));
        }
        if self.decoded_left > 0 {
            let decoded = self.decoded_length - self.decoded_left;
            return Err(malformed(format!("its LZ4 block decodes to {decoded} bytes, not {}", self.decoded_length)));
        }
        Ok(())
    }

    /// Returns the number of bytes to emit.
    fn ready(&self) -> usize {
        self.decoded.len() - self.emitted
    }

    /// Whether the block can end here: its last sequence has only literals.
    fn is_at_end(&self) -> bool {
        self.stored_left == 0 && matches!(self.step, Step::Offset { .. } | Step::Literals { left: 0, .. })
    }

    /// Performs a step. Returns false if the step needs more input.
    fn take(&mut self, input: &mut &[u8]) -> Result<bool> {
        match self.step {
            Step::Literals { left: 0, token } => self.step = Step::Offset { token },
            Step::Literals { left, token } => {
                let room = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
                let (literals, rest) = input.split_at(input.len().min(room));
                if literals.is_empty() {
                    return Ok(false);
                }
                self.count(literals.len() as u64)?;
                self.decoded.extend_from_slice(literals);
                *input = rest;
                self.step = Step::Literals { left: left - literals.len() as u64, token };
            }
            Step::Match { left: 0, .. } => self.step = Step::Token,
            Step::Match { left, offset } => {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES).min(offset);
                self.count(length as u64)?;
                let start = self.decoded.len().checked_sub(offset).ok_or_else(|| malformed(BEFORE_THE_START))?;
                self.decoded.extend_from_within(start..start + length);
                self.step = Step::Match { left: left - length as u64, offset };
            }
            step => {
                let Some((byte, rest)) = input.split_first() else { return Ok(false) };
                *input = rest;
                self.step = self.after(step, *byte)?;
            }
        }
        Ok(true)
    }

    /// Returns the step after a byte, for steps that are read byte by byte.
    fn after(&self, step: Step, byte: u8) -> Result<Step> {
        Ok(match step {
            Step::Prefix { mut bytes, have } => {
                if let Some(slot) = bytes.get_mut(have) {
                    *slot = byte;
                }
                if have < 3 {
                    return Ok(Step::Prefix { bytes, have: have + 1 });
                }
                let (prefix, claimed) = (u64::from(u32::from_le_bytes(bytes)), self.decoded_length);
                if prefix != claimed {
                    let what = format!("its LZ4 block claims {prefix} bytes decoded, but the file {claimed}");
                    return Err(malformed(what));
                }
                check_lengths(self.stored_length, claimed)?;
                Step::Token
            }
            Step::Token if byte >> 4 == LONG => Step::LiteralLength { length: LONG.into(), token: byte },
            Step::Token => Step::Literals { left: (byte >> 4).into(), token: byte },
            Step::LiteralLength { length, token } if byte == u8::MAX => {
                Step::LiteralLength { length: self.longer(length, byte)?, token }
            }
            Step::LiteralLength { length, token } => Step::Literals { left: self.longer(length, byte)?, token },
            Step::Offset { token } => Step::OffsetHigh { low: byte, token },
            Step::OffsetHigh { low, token } => {
                let offset = usize::from(u16::from_le_bytes([low, byte]));
                if offset == 0 || offset > self.decoded.len() {
                    return Err(malformed(BEFORE_THE_START));
                }
                match token & 0x0f {
                    LONG => Step::MatchLength { length: u64::from(LONG) + MIN_MATCH, offset },
                    length => Step::Match { left: u64::from(length) + MIN_MATCH, offset },
                }
            }
            Step::MatchLength { length, offset } if byte == u8::MAX => {
                Step::MatchLength { length: self.longer(length, byte)?, offset }
            }
            Step::MatchLength { length, offset } => Step::Match { left: self.longer(length, byte)?, offset },
            Step::Literals { .. } | Step::Match { .. } => step,
        })
    }

    fn longer(&self, length: u64, byte: u8) -> Result<u64> {
        let length = length.saturating_add(byte.into());
        if length > self.decoded_left { Err(self.too_long()) } else { Ok(length) }
    }

    fn count(&mut self, length: u64) -> Result<()> {
        self.decoded_left = self.decoded_left.checked_sub(length).ok_or_else(|| self.too_long())?;
        Ok(())
    }

    fn too_long(&self) -> crate::error::Error {
        malformed(format!("its LZ4 block decodes to more than the {} bytes that it claims", self.decoded_length))
    }
}

const BEFORE_THE_START: &str = "its LZ4 block is damaged: a match refers to bytes before its start";

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode_in_chunks(stored: &[u8], claimed: u64, cuts: &[usize]) -> Result<Vec<u8>> {
        let mut decoder = Lz4Block::new(stored.len() as u64, claimed);
        let mut out = Vec::new();
        let mut rest = stored;
        for &cut in cuts.iter().chain([&stored.len()]) {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            decoder.push(chunk, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
            rest = after;
        }
        decoder.finish()?;
        Ok(out)
    }

    proptest! {
        #[test]
        fn the_output_does_not_depend_on_the_chunks(
            seed in proptest::collection::vec(any::<u8>(), 1..300),
            repeat in 1usize..900,
            cuts in proptest::collection::vec(0usize..70_000, 0..9),
        ) {
            let data = seed.repeat(repeat);
            let stored = lz4_flex::compress_prepend_size(&data);
            prop_assert_eq!(decode_in_chunks(&stored, data.len() as u64, &cuts), Ok(data));
        }
    }

    #[test]
    fn rejects_output_that_differs_from_either_length() {
        let mut stored = lz4_flex::compress_prepend_size(&[7; 1000]);
        assert!(decode_in_chunks(&stored, 999, &[]).unwrap_err().what.contains("claims 1000 bytes"));
        for claimed in [999u32, 1001] {
            stored[..4].copy_from_slice(&claimed.to_le_bytes());
            assert!(decode_in_chunks(&stored, claimed.into(), &[]).is_err());
        }
    }

    #[test]
    fn rejects_impossible_lengths_before_allocating_memory() {
        let mut stored = lz4_flex::compress_prepend_size(&[7; 1000]);
        stored[..4].fill(0xff);
        let error = decode_in_chunks(&stored, u64::from(u32::MAX), &[]).unwrap_err();
        assert!(error.what.contains("cannot decode to"), "{error}");
    }

    proptest! {
        /// The decoder of `lz4_flex` returns the same bytes, or also fails.
        #[test]
        fn matches_the_reference_decoder_for_any_bytes(
            block in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x10), Just(1), Just(0)], 1..60),
        ) {
            for claimed in 0..200usize {
                let stored = [&(claimed as u32).to_le_bytes()[..], &block].concat();
                let other = lz4_flex::block::decompress(&block, claimed).ok().filter(|out| out.len() == claimed);
                if let Some(other) = other {
                    prop_assert_eq!(decode_in_chunks(&stored, claimed as u64, &[7]), Ok(other));
                }
            }
        }
    }

    #[test]
    fn emits_a_long_match_in_pieces() {
        let stored = lz4_flex::compress_prepend_size(&vec![7; 10 << 20]);
        let mut decoder = Lz4Block::new(stored.len() as u64, 10 << 20);
        let (mut decoded, mut rest) = (0, &stored[..]);
        while decoded < 10 << 20 {
            let mut pieces = 0;
            let taken = decoder.push_some(rest, &mut |bytes| {
                (pieces, decoded) = (pieces + 1, decoded + bytes.len());
                assert!(bytes.len() <= 2 * PIECE_BYTES && bytes.iter().all(|byte| *byte == 7));
                Ok(())
            });
            rest = &rest[taken.unwrap()..];
            assert!(pieces <= 1 && decoder.decoded.capacity() < 512 << 10);
        }
        assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn rejects_an_incomplete_block() {
        let stored = lz4_flex::compress_prepend_size(&[7; 1000]);
        let mut decoder = Lz4Block::new(stored.len() as u64, 1000);
        decoder.push(&stored[..stored.len() - 1], &mut |_| Ok(())).unwrap();
        assert!(decoder.finish().is_err());
    }
}
