//! LZ4 as APR v2 stores it: blocks of at most 64 KiB decoded, each preceded by its stored length as a u32.
//!
//! The specification does not define more. This decoder reads raw LZ4 blocks that do not refer to each other, and whose
//! total stored and decoded lengths are exactly those of the index.

use crate::error::{Result, malformed};
use crate::index::{BlockEnd, Component};

/// The maximum decoded length of a block (specification, "Compression").
pub const MAX_BLOCK_BYTES: usize = 64 << 10;

/// The maximum stored length of a block: LZ4 expands n incompressible bytes to at most n + n / 255 + 16. Prevents an
/// invalid block length from making the decoder buffer gigabytes.
pub const MAX_STORED_BLOCK_BYTES: usize = MAX_BLOCK_BYTES + MAX_BLOCK_BYTES / 255 + 16;

/// The size of the length field before each block.
pub const LENGTH_BYTES: usize = 4;

/// The maximum compression ratio: a byte that extends a match length adds at most 255 bytes (LZ4 block format).
const MAX_RATIO: u64 = 255;

/// Checks a claimed decoded length against the stored length. Call it before allocating memory for the decoded bytes.
///
/// # Errors
/// `FORMAT` if no LZ4 stream of `stored` bytes can decode to `decoded` bytes.
pub fn check_lengths(stored: u64, decoded: u64) -> Result<()> {
    let blocks = decoded.div_ceil(MAX_BLOCK_BYTES as u64);
    let least = blocks.saturating_mul(LENGTH_BYTES as u64 + 1);
    if stored < least || decoded / MAX_RATIO > stored {
        return Err(malformed(format!("{stored} bytes of LZ4 cannot decode to {decoded}")));
    }
    Ok(())
}

/// Returns the maximum stored length of the blocks up to the decoded offset `decoded_end`, including all of the last
/// block.
pub fn max_stored_length(decoded_end: u64) -> u64 {
    let blocks = decoded_end.div_ceil(MAX_BLOCK_BYTES as u64);
    blocks.saturating_mul((LENGTH_BYTES + MAX_STORED_BLOCK_BYTES) as u64)
}

/// Decodes the blocks of one component from chunks of any length. Buffers one block.
#[derive(Debug)]
pub struct Lz4Blocks {
    stored_left: u64,
    decoded_left: u64,
    /// The bytes of an incomplete block, including its length field.
    pending: Vec<u8>,
    decoded: Vec<u8>,
    blocks: Vec<BlockEnd>,
}

impl Lz4Blocks {
    /// Creates the decoder of a component.
    pub fn of(component: &Component) -> Self {
        let stored = component.range.end.saturating_sub(component.range.start);
        Self::new(stored, component.decoded_length.unwrap_or(0))
    }

    /// Creates a decoder of `stored` bytes that must decode to `decoded` bytes.
    pub fn new(stored: u64, decoded: u64) -> Self {
        let (pending, blocks) = (Vec::new(), Vec::new());
        Lz4Blocks { stored_left: stored, decoded_left: decoded, pending, decoded: vec![0; MAX_BLOCK_BYTES], blocks }
    }

    /// See [`Decoder::push`](super::Decoder::push). Calls `emit` once per block.
    ///
    /// # Errors
    /// `FORMAT` if a block is damaged, or there are more bytes than passed to `new`; errors of `emit`.
    pub fn push(&mut self, mut input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !input.is_empty() {
            let consumed = self.push_some(input, emit)?;
            input = input.get(consumed..).unwrap_or_default();
        }
        Ok(())
    }

    /// See [`Decoder::push_some`](super::Decoder::push_some). Calls `emit` for at most one block.
    ///
    /// # Errors
    /// As for [`Lz4Blocks::push`].
    pub fn push_some(&mut self, all: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        if all.len() as u64 > self.stored_left {
            return Err(malformed("there are more bytes than its LZ4 blocks should have"));
        }
        let mut input = all;
        let outcome = self.take_block(&mut input, emit);
        let consumed = all.len() - input.len();
        self.stored_left -= consumed as u64;
        outcome.map(|()| consumed)
    }

    /// Consumes the input up to the end of a block, or all of it.
    fn take_block(&mut self, input: &mut &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.pending.is_empty()
            && let Some((block, rest)) = split_block(input)?
        {
            *input = rest;
            return self.decode(block, emit); // directly from the chunk: most blocks need no copy
        }
        while !input.is_empty() {
            let needed = if self.pending.len() < LENGTH_BYTES {
                LENGTH_BYTES
            } else {
                LENGTH_BYTES + block_length(&self.pending)?.unwrap_or(0)
            };
            let (consumed, rest) = input.split_at(input.len().min(needed - self.pending.len()));
            self.pending.extend_from_slice(consumed);
            *input = rest;
            let mut whole = std::mem::take(&mut self.pending);
            if let Some((block, _)) = split_block(&whole)? {
                let outcome = self.decode(block, emit);
                whole.clear();
                self.pending = whole;
                return outcome;
            }
            self.pending = whole;
        }
        Ok(())
    }

    /// See [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if stored or decoded bytes are missing.
    pub fn finish(&self) -> Result<()> {
        if self.stored_left > 0 || !self.pending.is_empty() {
            return Err(malformed("its last LZ4 block is incomplete"));
        }
        if self.decoded_left > 0 {
            return Err(malformed(format!(
                "its LZ4 blocks decode to {} bytes less than the index states",
                self.decoded_left
            )));
        }
        Ok(())
    }

    /// See [`Decoder::blocks`](super::Decoder::blocks).
    pub fn blocks(&self) -> &[BlockEnd] {
        &self.blocks
    }

    fn decode(&mut self, block: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let capacity = usize::try_from(self.decoded_left).unwrap_or(MAX_BLOCK_BYTES).min(MAX_BLOCK_BYTES);
        let out = self.decoded.get_mut(..capacity).unwrap_or_default();
        let length = weightstream_kernels::lz4::decode_block(block, out).map_err(|error| match error {
            weightstream_kernels::lz4::DecompressError::OutputTooSmall { .. } => {
                malformed(format!("an LZ4 block decodes to more than the {capacity} bytes it may"))
            }
            other => malformed(format!("an LZ4 block is damaged: {other}")).with_cause(other),
        })?;
        if length == 0 {
            return Err(malformed("an LZ4 block decodes to zero bytes"));
        }
        self.decoded_left -= length as u64;
        let end = self.blocks.last().copied().unwrap_or_default();
        self.blocks.extend(end.next((LENGTH_BYTES + block.len()) as u64, length as u64));
        emit(self.decoded.get(..length).unwrap_or_default())
    }
}

/// Returns the length field of a block, if its four bytes are available.
fn block_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_STORED_BLOCK_BYTES {
        return Err(malformed(format!("an LZ4 block claims {length} bytes; the limit is {MAX_STORED_BLOCK_BYTES}")));
    }
    Ok(Some(length))
}

/// Splits off the first block of `bytes`, if it is complete.
fn split_block(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let Some(length) = block_length(bytes)? else { return Ok(None) };
    Ok(bytes.get(LENGTH_BYTES..).and_then(|rest| rest.split_at_checked(length)))
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(data: &[u8]) -> Vec<u8> {
        let mut stored = Vec::new();
        for block in data.chunks(MAX_BLOCK_BYTES) {
            let block = lz4_flex::block::compress(block);
            stored.extend((block.len() as u32).to_le_bytes());
            stored.extend(block);
        }
        stored
    }

    fn decode(stored: &[u8], claimed: u64, cuts: &[usize]) -> Result<Vec<u8>> {
        let mut decoder = Lz4Blocks::new(stored.len() as u64, claimed);
        let mut out = Vec::new();
        let mut rest = stored;
        for &cut in cuts {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            decoder.push(chunk, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
            rest = after;
        }
        decoder.push(rest, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })?;
        decoder.finish()?;
        Ok(out)
    }

    proptest! {
        #[test]
        fn the_output_does_not_depend_on_the_chunks(
            seed in proptest::collection::vec(any::<u8>(), 1..300),
            repeat in 1usize..900,
            cuts in proptest::collection::vec(0usize..70_000, 0..40),
        ) {
            let data = seed.repeat(repeat);
            let stored = encode(&data);
            prop_assert_eq!(decode(&stored, data.len() as u64, &cuts), Ok(data));
        }

        #[test]
        fn damaged_blocks_fail_or_decode_to_the_claimed_length(
            at in 0usize..2000, flip in 1u8..=255, cuts in proptest::collection::vec(0usize..900, 0..9),
        ) {
            let data: Vec<u8> = (0..150_000u32).map(|i| (i / 7 % 13) as u8).collect();
            let mut stored = encode(&data);
            let at = at % stored.len();
            stored[at] ^= flip;
            if let Ok(out) = decode(&stored, data.len() as u64, &cuts) {
                prop_assert_eq!(out.len(), data.len());
            }
        }
    }

    #[test]
    fn rejects_a_block_that_decodes_to_more_than_claimed() {
        let stored = encode(&[7; 1000]);
        assert!(decode(&stored, 999, &[]).unwrap_err().what.contains("decodes to more"));
        assert!(decode(&stored, 1001, &[]).unwrap_err().what.contains("1 bytes less"));
    }

    #[test]
    fn rejects_a_block_larger_than_its_limit() {
        let mut stored = vec![0; 8];
        stored[..4].copy_from_slice(&(MAX_STORED_BLOCK_BYTES as u32 + 1).to_le_bytes());
        assert!(decode(&stored, 1, &[]).unwrap_err().what.contains("claims 65810 bytes"));
        stored[..4].fill(0);
        assert!(decode(&stored, 1, &[]).is_err());
    }

    #[test]
    fn rejects_a_stream_that_ends_inside_a_block() {
        let stored = encode(&[7; 1000]);
        assert!(decode(&stored[..stored.len() - 1], 1000, &[]).is_err());
    }

    #[test]
    fn rejects_impossible_lengths() {
        assert!(check_lengths(10, 1 << 40).is_err());
        assert!(check_lengths(0, 1).is_err());
        let stored = encode(&vec![0; 10 << 20]);
        assert!(check_lengths(stored.len() as u64, 10 << 20).is_ok());
    }
}
