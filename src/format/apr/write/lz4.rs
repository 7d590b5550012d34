//! Splits a tensor into blocks of 64 KiB and compresses each block independently, on all processors.

use crate::codec::lz4::MAX_BLOCK_BYTES;
use crate::error::{Error, ErrorKind, Result};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{Receiver, sync_channel};

/// The number of queued blocks per thread: one being compressed, and one waiting.
const BLOCKS_PER_THREAD: usize = 2;

/// Compresses blocks on a thread pool. The output does not depend on the number of threads, as blocks are independent.
pub(super) struct BlockCompressor {
    /// `None` if the pool could not be created: the calling thread then compresses all blocks.
    pool: Option<ThreadPool>,
    /// The maximum number of pending blocks.
    max_blocks: usize,
    /// Workspaces for reuse.
    spare: Vec<Workspace>,
}

/// A block, and the buffers to compress it.
struct Workspace {
    block: Vec<u8>,
    compressed: Vec<u8>,
    table: CompressTable,
}

/// Compresses one tensor. Every block except the last has exactly [`MAX_BLOCK_BYTES`] decoded bytes, so that a reader
/// can compute which block holds a row.
pub(super) struct BlockEncoder<'a> {
    compressor: &'a mut BlockCompressor,
    /// The block being filled.
    current: Workspace,
    /// Blocks that are being compressed, in order.
    pending: VecDeque<Receiver<Result<(Workspace, usize)>>>,
    /// The compressed lengths of the blocks that were emitted.
    lengths: Vec<u32>,
}

impl BlockCompressor {
    /// Creates a dedicated pool with one thread per processor. A pool shared with the caller could block on itself.
    pub(super) fn new() -> Self {
        BlockCompressor::with_pool(ThreadPoolBuilder::new().build().ok())
    }

    fn with_pool(pool: Option<ThreadPool>) -> Self {
        let threads = pool.as_ref().map_or(0, ThreadPool::current_num_threads);
        BlockCompressor { pool, max_blocks: threads * BLOCKS_PER_THREAD, spare: Vec::new() }
    }

    /// Begins a tensor.
    pub(super) fn encoder(&mut self) -> BlockEncoder<'_> {
        let current = self.workspace();
        BlockEncoder { compressor: self, current, pending: VecDeque::new(), lengths: Vec::new() }
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
    /// Compresses the next bytes, of any length, and calls `emit` with the bytes to store.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !bytes.is_empty() {
            let block = &mut self.current.block;
            let (filled, rest) = bytes.split_at(bytes.len().min(MAX_BLOCK_BYTES - block.len()));
            block.extend_from_slice(filled);
            bytes = rest;
            if block.len() == MAX_BLOCK_BYTES {
                self.compress_block();
                self.emit_blocks(self.compressor.max_blocks, emit)?;
            }
        }
        Ok(())
    }

    /// Compresses the last block. Must be called after the last byte. Returns the compressed lengths of all blocks.
    pub(super) fn finish(mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Vec<u32>> {
        if !self.current.block.is_empty() {
            self.compress_block();
        }
        self.emit_blocks(0, emit)?;
        self.compressor.spare.push(self.current);
        Ok(self.lengths)
    }

    /// Starts the compression of the current block.
    fn compress_block(&mut self) {
        let next = self.compressor.workspace();
        let workspace = mem::replace(&mut self.current, next);
        let (done, receiver) = sync_channel(1);
        let compress = move || {
            let _ = done.send(workspace.compress()); // after an error, the receiver is gone
        };
        match &self.compressor.pool {
            Some(pool) => pool.spawn(compress),
            None => compress(),
        }
        self.pending.push_back(receiver);
    }

    /// Emits blocks in order until at most `left` blocks are pending.
    fn emit_blocks(&mut self, left: usize, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while self.pending.len() > left
            && let Some(block) = self.pending.pop_front()
        {
            let lost = |_| Error::new(ErrorKind::Internal, "a compression thread ended unexpectedly");
            let (mut workspace, length) = block.recv().map_err(lost)??;
            self.lengths.push(length as u32);
            emit(&(length as u32).to_le_bytes())?;
            emit(workspace.compressed.get(..length).unwrap_or_default())?;
            workspace.block.clear();
            self.compressor.spare.push(workspace);
        }
        Ok(())
    }
}

impl Workspace {
    /// Compresses the block, and returns the compressed length.
    fn compress(mut self) -> Result<(Workspace, usize)> {
        let length = compress_into_with_table(&self.block, &mut self.compressed, &mut self.table);
        let failed = |e| Error::new(ErrorKind::Internal, format!("LZ4 failed to compress a block: {e}"));
        let length = length.map_err(failed)?;
        Ok((self, length))
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::codec::lz4::Lz4Blocks;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_do_not_depend_on_splits_or_threads_and_round_trip(
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
