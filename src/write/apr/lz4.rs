//! Cuts a tensor into blocks of 64 KiB and compresses each by itself.

use crate::codec::lz4::MAX_BLOCK_BYTES;
use crate::error::{Error, ErrorKind, Result};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Every block but the last has exactly [`MAX_BLOCK_BYTES`] decoded bytes, so that a reader knows which
/// block holds a row.
pub(super) struct BlockEncoder {
    block: Vec<u8>,
    compressed: Vec<u8>,
    table: CompressTable,
}

impl BlockEncoder {
    pub(super) fn new() -> Self {
        BlockEncoder {
            block: Vec::with_capacity(MAX_BLOCK_BYTES),
            compressed: vec![0; get_maximum_output_size(MAX_BLOCK_BYTES)],
            table: CompressTable::large(),
        }
    }

    /// Takes the next bytes, cut anywhere, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !bytes.is_empty() {
            let (taken, rest) = bytes.split_at(bytes.len().min(MAX_BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(taken);
            bytes = rest;
            if self.block.len() == MAX_BLOCK_BYTES {
                self.emit_block(emit)?;
            }
        }
        Ok(())
    }

    /// Must be called after the last byte.
    pub(super) fn finish(mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.block.is_empty() { Ok(()) } else { self.emit_block(emit) }
    }

    fn emit_block(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let length = compress_into_with_table(&self.block, &mut self.compressed, &mut self.table);
        let length = length.map_err(|e| Error::new(ErrorKind::Internal, format!("LZ4 refuses a block: {e}")))?;
        emit(&(length as u32).to_le_bytes())?;
        emit(self.compressed.get(..length).unwrap_or_default())?;
        self.block.clear();
        Ok(())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::codec::lz4::Lz4Blocks;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_split_into_pieces_gives_the_same_blocks_and_they_decode(
            seed in proptest::collection::vec(any::<u8>(), 1..300),
            repeat in 1usize..900,
            cuts in proptest::collection::vec(0usize..70_000, 0..20),
        ) {
            let data = seed.repeat(repeat);
            let encode = |cuts: &[usize]| {
                let (mut stored, mut encoder, mut rest) = (Vec::new(), BlockEncoder::new(), &data[..]);
                let mut emit = |bytes: &[u8]| { stored.extend_from_slice(bytes); Ok(()) };
                for &cut in cuts {
                    let (piece, after) = rest.split_at(cut.min(rest.len()));
                    encoder.push(piece, &mut emit).unwrap();
                    rest = after;
                }
                encoder.push(rest, &mut emit).unwrap();
                encoder.finish(&mut emit).unwrap();
                stored
            };
            let stored = encode(&cuts);
            prop_assert_eq!(&stored, &encode(&[]));
            let mut decoder = Lz4Blocks::new(stored.len() as u64, data.len() as u64);
            let (mut lengths, mut decoded) = (Vec::new(), Vec::new());
            decoder.push(&stored, &mut |block| {
                lengths.push(block.len());
                decoded.extend_from_slice(block);
                Ok(())
            }).unwrap();
            prop_assert_eq!(decoder.finish(), Ok(()));
            prop_assert_eq!(decoded, data);
            prop_assert!(lengths.iter().rev().skip(1).all(|&length| length == MAX_BLOCK_BYTES));
        }
    }
}
