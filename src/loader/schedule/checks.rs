//! Checks of stored bytes as they arrive: page digests and checksums of whole files.

use crate::codec::pages::PageChecker;
use crate::error::Result;
use crate::loader::schedule::file_checks::WholeChecks;
use crate::loader::transfer::range_reader::Chunk;
use crate::source::Buffer;
use std::cell::RefCell;
use std::ops::Range;

/// Verifies stored bytes as they arrive, against the digests of their pages and of their file.
pub(crate) struct Checks<'a> {
    /// The file checks of the call, and the number of the file that the bytes belong to.
    whole: Option<(&'a WholeChecks, usize)>,
    pages: &'a RefCell<Vec<PageChecker>>,
}

impl<'a> Checks<'a> {
    pub(crate) fn new(whole: Option<(&'a WholeChecks, usize)>, pages: &'a RefCell<Vec<PageChecker>>) -> Self {
        Checks { whole, pages }
    }

    /// Whether a range of the file has bytes to check. Others need not be copied into this thread's memory.
    pub(crate) fn are_needed(&self, range: &Range<u64>) -> bool {
        self.whole.is_some_and(|(whole, shard)| whole.include(shard, range)) || !self.pages.borrow().is_empty()
    }

    pub(crate) fn stored(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        if let Some((whole, shard)) = self.whole {
            whole.update(shard, at, bytes);
        }
        self.pages.borrow_mut().iter_mut().try_for_each(|checker| checker.update(at, bytes))
    }

    /// Like [`Checks::stored`], for a chunk that starts at offset `at` of the file.
    pub(crate) fn chunk<B: Buffer>(&mut self, mut at: u64, chunk: &Chunk<'_, B>) -> Result<()> {
        if !self.are_needed(&(at..at + chunk.length)) {
            return Ok(());
        }
        chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
            self.stored(at, bytes)?;
            at += bytes.len() as u64;
            Ok(())
        })
    }
}
