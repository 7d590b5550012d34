//! One LZ4 block of any length behind its decoded length, as the crate `lz4_flex` writes it
//! (`compress_prepend_size`): what compresses old APR files as a whole.
//!
//! Such a block refers to all that it decoded before, so it is decoded in one piece, in memory; the formats that
//! use it limit its length.

use super::lz4::check_lengths;
use crate::error::{Error, ErrorKind, Result, malformed};

/// Decodes one block from chunks cut anywhere, once all of it is there.
#[derive(Debug)]
pub struct Lz4Block {
    stored_left: u64,
    decoded_length: u64,
    stored: Vec<u8>,
    is_decoded: bool,
}

impl Lz4Block {
    /// A decoder of `stored` bytes that claim to decode to `decoded` bytes.
    pub fn new(stored: u64, decoded: u64) -> Self {
        Lz4Block { stored_left: stored, decoded_length: decoded, stored: Vec::new(), is_decoded: false }
    }

    /// As [`Decoder::push`](super::Decoder::push): `emit` is called once, with the last chunk.
    pub fn push(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if input.len() as u64 > self.stored_left {
            return Err(malformed("more bytes than its LZ4 block should have"));
        }
        self.stored_left -= input.len() as u64;
        self.stored.extend_from_slice(input);
        if self.stored_left == 0 && !self.is_decoded {
            self.is_decoded = true;
            let stored = std::mem::take(&mut self.stored);
            emit(&decode(&stored, self.decoded_length)?)?;
        }
        Ok(())
    }

    /// As [`Decoder::finish`](super::Decoder::finish).
    pub fn finish(&self) -> Result<()> {
        if !self.is_decoded {
            return Err(malformed("its LZ4 block is not whole"));
        }
        Ok(())
    }
}

fn decode(stored: &[u8], claimed: u64) -> Result<Vec<u8>> {
    let Some((prefix, block)) = stored.split_first_chunk::<4>() else {
        return Err(malformed("its LZ4 block has no length"));
    };
    let prefix = u64::from(u32::from_le_bytes(*prefix));
    if prefix != claimed {
        return Err(malformed(format!("its LZ4 block claims {prefix} bytes once decoded, the file {claimed}")));
    }
    check_lengths(stored.len() as u64, claimed)?;
    let no_memory = || Error::new(ErrorKind::Limit, format!("there is no memory for {claimed} bytes"));
    let mut decoded = Vec::new();
    let length = usize::try_from(claimed).map_err(|_| no_memory())?;
    decoded.try_reserve_exact(length).map_err(|_| no_memory())?;
    decoded.resize(length, 0);
    let count = lz4_flex::block::decompress_into(block, &mut decoded)
        .map_err(|error| malformed(format!("its LZ4 block is damaged: {error}")))?;
    if count != length {
        return Err(malformed(format!("its LZ4 block decodes to {count} bytes, not {claimed}")));
    }
    Ok(decoded)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
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
        fn any_split_into_chunks_decodes_to_the_same(
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
    fn decodes_to_as_much_as_both_lengths_say_or_not_at_all() {
        let mut stored = lz4_flex::compress_prepend_size(&[7; 1000]);
        assert!(decode_in_chunks(&stored, 999, &[]).unwrap_err().what.contains("claims 1000 bytes"));
        for claimed in [999u32, 1001] {
            stored[..4].copy_from_slice(&claimed.to_le_bytes());
            assert!(decode_in_chunks(&stored, claimed.into(), &[]).is_err());
        }
    }

    #[test]
    fn allocates_nothing_for_a_length_that_lz4_cannot_reach() {
        let mut stored = lz4_flex::compress_prepend_size(&[7; 1000]);
        stored[..4].fill(0xff);
        let error = decode_in_chunks(&stored, u64::from(u32::MAX), &[]).unwrap_err();
        assert!(error.what.contains("cannot decode to"), "{error}");
    }

    #[test]
    fn refuses_a_block_that_is_not_whole() {
        let stored = lz4_flex::compress_prepend_size(&[7; 1000]);
        let mut decoder = Lz4Block::new(stored.len() as u64, 1000);
        decoder.push(&stored[..stored.len() - 1], &mut |_| Ok(())).unwrap();
        assert!(decoder.finish().is_err());
    }
}
