//! LZ4 as APR v2 stores it: blocks of at most 64 KiB decoded, each behind its stored length as a u32.
//!
//! The specification says only that much; what is read here: the blocks are bare LZ4 blocks that do not
//! refer to each other, and together they are exactly as long as the index says, stored and decoded.

use crate::error::{Result, malformed};
use crate::index::Component;

/// The most that one block may decode to (specification, "Compression").
pub const MAX_BLOCK_BYTES: usize = 64 << 10;

/// The most that LZ4 can make of 64 KiB that do not compress: n + n / 255 + 16. Stops a block length that
/// would make the decoder wait for gigabytes.
pub const MAX_STORED_BLOCK_BYTES: usize = MAX_BLOCK_BYTES + MAX_BLOCK_BYTES / 255 + 16;

const LENGTH_BYTES: usize = 4;

/// One stored byte stands for at most 255 decoded ones, in the extension of a match's length (LZ4 block format).
const MAX_RATIO: u64 = 255;

/// Checks a claimed decoded length against the stored length, before anything is allocated for it.
///
/// # Errors
/// `FORMAT` where no LZ4 stream of `stored` bytes can decode to `decoded` bytes.
pub fn check_lengths(stored: u64, decoded: u64) -> Result<()> {
    let blocks = decoded.div_ceil(MAX_BLOCK_BYTES as u64);
    let least = blocks.saturating_mul(LENGTH_BYTES as u64 + 1);
    if stored < least || decoded / MAX_RATIO > stored {
        return Err(malformed(format!("{stored} bytes of LZ4 cannot decode to {decoded}")));
    }
    Ok(())
}

/// The most stored bytes that the blocks up to decoded byte `decoded_end` can take: whole blocks, since a block
/// that ends further on must be read as well.
pub fn max_stored_length(decoded_end: u64) -> u64 {
    let blocks = decoded_end.div_ceil(MAX_BLOCK_BYTES as u64);
    blocks.saturating_mul((LENGTH_BYTES + MAX_STORED_BLOCK_BYTES) as u64)
}

/// Decodes one component's blocks from chunks cut anywhere, holding one block at a time.
#[derive(Debug)]
pub struct Lz4Blocks {
    stored_left: u64,
    decoded_left: u64,
    /// The beginning of a block whose end has not come yet, with its length.
    pending: Vec<u8>,
    decoded: Vec<u8>,
}

impl Lz4Blocks {
    /// The decoder of a component.
    pub fn of(component: &Component) -> Self {
        let stored = component.range.end.saturating_sub(component.range.start);
        Self::new(stored, component.decoded_length.unwrap_or(0))
    }

    /// A decoder of `stored` bytes that claim to decode to `decoded` bytes.
    pub fn new(stored: u64, decoded: u64) -> Self {
        Lz4Blocks { stored_left: stored, decoded_left: decoded, pending: Vec::new(), decoded: vec![0; MAX_BLOCK_BYTES] }
    }

    /// As [`Decoder::push`](super::Decoder::push): `emit` is called once a block.
    ///
    /// # Errors
    /// `FORMAT` if a block is damaged, or there are more bytes than `new` was given; those of `emit`.
    pub fn push(&mut self, mut input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !input.is_empty() {
            let taken = self.push_some(input, emit)?;
            input = input.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// As [`Decoder::push_some`](super::Decoder::push_some): `emit` is called for one block at most.
    ///
    /// # Errors
    /// As for [`Lz4Blocks::push`].
    pub fn push_some(&mut self, all: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        if all.len() as u64 > self.stored_left {
            return Err(malformed("more bytes than its blocks should have"));
        }
        let mut input = all;
        let outcome = self.take_block(&mut input, emit);
        let taken = all.len() - input.len();
        self.stored_left -= taken as u64;
        outcome.map(|()| taken)
    }

    /// Takes the input up to the end of a block, or all of it.
    fn take_block(&mut self, input: &mut &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.pending.is_empty()
            && let Some((block, rest)) = split_block(input)?
        {
            *input = rest;
            return self.decode(block, emit); // straight from the chunk: most blocks need no copy
        }
        while !input.is_empty() {
            let wanted = if self.pending.len() < LENGTH_BYTES {
                LENGTH_BYTES
            } else {
                LENGTH_BYTES + block_length(&self.pending)?.unwrap_or(0)
            };
            let (taken, rest) = input.split_at(input.len().min(wanted - self.pending.len()));
            self.pending.extend_from_slice(taken);
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

    /// As [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if stored or decoded bytes are missing.
    pub fn finish(&self) -> Result<()> {
        if self.stored_left > 0 || !self.pending.is_empty() {
            return Err(malformed("its last LZ4 block is not whole"));
        }
        if self.decoded_left > 0 {
            return Err(malformed(format!(
                "its LZ4 blocks decode to {} bytes less than the index says",
                self.decoded_left
            )));
        }
        Ok(())
    }

    fn decode(&mut self, block: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let room = usize::try_from(self.decoded_left).unwrap_or(MAX_BLOCK_BYTES).min(MAX_BLOCK_BYTES);
        let out = self.decoded.get_mut(..room).unwrap_or_default();
        let length = lz4_flex::block::decompress_into(block, out).map_err(|error| match error {
            lz4_flex::block::DecompressError::OutputTooSmall { .. } => {
                malformed(format!("an LZ4 block decodes to more than the {room} bytes it may"))
            }
            other => malformed(format!("an LZ4 block is damaged: {other}")).with_cause(other),
        })?;
        if length == 0 {
            return Err(malformed("an LZ4 block decodes to nothing"));
        }
        self.decoded_left -= length as u64;
        emit(self.decoded.get(..length).unwrap_or_default())
    }
}

/// The length that stands before a block, where its four bytes are there.
fn block_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_STORED_BLOCK_BYTES {
        return Err(malformed(format!("an LZ4 block claims {length} bytes; one has 1 to {MAX_STORED_BLOCK_BYTES}")));
    }
    Ok(Some(length))
}

/// The first block of `bytes` and what follows it, where the whole block is there.
fn split_block(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let Some(length) = block_length(bytes)? else { return Ok(None) };
    Ok(bytes.get(LENGTH_BYTES..).and_then(|rest| rest.split_at_checked(length)))
}

#[cfg(all(test, not(target_arch = "wasm32")))]
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
        fn any_split_into_chunks_decodes_to_the_same(
            seed in proptest::collection::vec(any::<u8>(), 1..300),
            repeat in 1usize..900,
            cuts in proptest::collection::vec(0usize..70_000, 0..40),
        ) {
            let data = seed.repeat(repeat);
            let stored = encode(&data);
            prop_assert_eq!(decode(&stored, data.len() as u64, &cuts), Ok(data));
        }

        #[test]
        fn damage_is_an_error_or_as_long_as_claimed(
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
    fn refuses_a_block_that_decodes_to_more_than_claimed() {
        let stored = encode(&[7; 1000]);
        assert!(decode(&stored, 999, &[]).unwrap_err().what.contains("decodes to more"));
        assert!(decode(&stored, 1001, &[]).unwrap_err().what.contains("1 bytes less"));
    }

    #[test]
    fn refuses_a_block_larger_than_its_bound() {
        let mut stored = vec![0; 8];
        stored[..4].copy_from_slice(&(MAX_STORED_BLOCK_BYTES as u32 + 1).to_le_bytes());
        assert!(decode(&stored, 1, &[]).unwrap_err().what.contains("claims 65810 bytes"));
        stored[..4].fill(0);
        assert!(decode(&stored, 1, &[]).is_err());
    }

    #[test]
    fn refuses_a_stream_that_ends_inside_a_block() {
        let stored = encode(&[7; 1000]);
        assert!(decode(&stored[..stored.len() - 1], 1000, &[]).is_err());
    }

    #[test]
    fn refuses_lengths_that_lz4_cannot_reach() {
        assert!(check_lengths(10, 1 << 40).is_err());
        assert!(check_lengths(0, 1).is_err());
        let stored = encode(&vec![0; 10 << 20]);
        assert!(check_lengths(stored.len() as u64, 10 << 20).is_ok());
    }
}
