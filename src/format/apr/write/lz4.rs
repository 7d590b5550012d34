//! Cuts a tensor into blocks of 64 KiB and compresses each by itself, on all processors.

use crate::codec::lz4::MAX_BLOCK_BYTES;
use crate::error::{Error, ErrorKind, Result};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{Receiver, sync_channel};

/// Blocks on their way for each thread: one that it compresses, and one that waits for it.
const BLOCKS_A_THREAD: usize = 2;

/// The threads that compress. The bytes are the same however many there are: no block depends on another.
pub(super) struct BlockCompressor {
    /// `None` where threads cannot be had: then this one does all.
    pool: Option<ThreadPool>,
    /// What may be compressed at a time.
    max_blocks: usize,
    /// What blocks are compressed with, from one to the next.
    spare: Vec<Workspace>,
}

/// A block, and what it takes to compress it.
struct Workspace {
    block: Vec<u8>,
    compressed: Vec<u8>,
    table: CompressTable,
}

/// Every block but the last has exactly [`MAX_BLOCK_BYTES`] decoded bytes, so that a reader knows which
/// block holds a row.
pub(super) struct BlockEncoder<'a> {
    compressor: &'a mut BlockCompressor,
    /// The block that is filled.
    filling: Workspace,
    /// Blocks that are being compressed, in order.
    begun: VecDeque<Receiver<Result<(Workspace, usize)>>>,
}

impl BlockCompressor {
    /// As many threads as there are processors: the pool is its own, so that it never waits for a caller who is in one.
    pub(super) fn new() -> Self {
        BlockCompressor::with_pool(ThreadPoolBuilder::new().build().ok())
    }

    fn with_pool(pool: Option<ThreadPool>) -> Self {
        let threads = pool.as_ref().map_or(0, ThreadPool::current_num_threads);
        BlockCompressor { pool, max_blocks: threads * BLOCKS_A_THREAD, spare: Vec::new() }
    }

    /// Begins a tensor.
    pub(super) fn encoder(&mut self) -> BlockEncoder<'_> {
        let filling = self.workspace();
        BlockEncoder { compressor: self, filling, begun: VecDeque::new() }
    }

    fn workspace(&mut self) -> Workspace {
        self.spare.pop().unwrap_or_else(|| Workspace {
            block: Vec::with_capacity(MAX_BLOCK_BYTES),
            compressed: vec![0; get_maximum_output_size(MAX_BLOCK_BYTES)],
            table: CompressTable::large(),
        })
    }
}

impl BlockEncoder<'_> {
    /// Takes the next bytes, cut anywhere, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !bytes.is_empty() {
            let block = &mut self.filling.block;
            let (taken, rest) = bytes.split_at(bytes.len().min(MAX_BLOCK_BYTES - block.len()));
            block.extend_from_slice(taken);
            bytes = rest;
            if block.len() == MAX_BLOCK_BYTES {
                self.begin_block();
                self.emit_blocks(self.compressor.max_blocks, emit)?;
            }
        }
        Ok(())
    }

    /// Must be called after the last byte.
    pub(super) fn finish(mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if !self.filling.block.is_empty() {
            self.begin_block();
        }
        self.emit_blocks(0, emit)?;
        self.compressor.spare.push(self.filling);
        Ok(())
    }

    /// Has the block that was filled compressed.
    fn begin_block(&mut self) {
        let next = self.compressor.workspace();
        let workspace = mem::replace(&mut self.filling, next);
        let (done, receiver) = sync_channel(1);
        let compress = move || {
            let _ = done.send(workspace.compress()); // nobody waits for it any more after an error
        };
        match &self.compressor.pool {
            Some(pool) => pool.spawn(compress),
            None => compress(),
        }
        self.begun.push_back(receiver);
    }

    /// Stores blocks in order until no more than so many are on their way.
    fn emit_blocks(&mut self, left: usize, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while self.begun.len() > left
            && let Some(block) = self.begun.pop_front()
        {
            let lost = |_| Error::new(ErrorKind::Internal, "a thread that compresses has ended");
            let (mut workspace, length) = block.recv().map_err(lost)??;
            emit(&(length as u32).to_le_bytes())?;
            emit(workspace.compressed.get(..length).unwrap_or_default())?;
            workspace.block.clear();
            self.compressor.spare.push(workspace);
        }
        Ok(())
    }
}

impl Workspace {
    /// With the compressed length.
    fn compress(mut self) -> Result<(Workspace, usize)> {
        let length = compress_into_with_table(&self.block, &mut self.compressed, &mut self.table);
        let length = length.map_err(|e| Error::new(ErrorKind::Internal, format!("LZ4 refuses a block: {e}")))?;
        Ok((self, length))
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::codec::lz4::Lz4Blocks;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_split_and_any_number_of_threads_give_the_same_blocks_and_they_decode(
            seed in proptest::collection::vec(any::<u8>(), 1..300),
            repeat in 1usize..900,
            cuts in proptest::collection::vec(0usize..70_000, 0..20),
            threads in 1usize..5,
        ) {
            let data = seed.repeat(repeat);
            let encode = |cuts: &[usize], threads: Option<usize>| {
                let pool = threads.map(|threads| ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
                let mut compressor = BlockCompressor::with_pool(pool);
                let (mut stored, mut encoder, mut rest) = (Vec::new(), compressor.encoder(), &data[..]);
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
            let stored = encode(&cuts, Some(threads));
            prop_assert_eq!(&stored, &encode(&[], None));
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
