//! The blocks of an open file that were read, for servers whose responses do not prove which version they are of.
//!
//! A file that stays open is read by many requests, which the caller joins: as a Blob, as the responses of a service
//! worker. A strong ETag proves that they are of one version. Without one, every response must overlap what was read
//! before: it starts at a block whose digest is known, and each known block that arrives again is compared. The known
//! blocks are always the start of the file, because a response begins among them or directly after them. A read far
//! ahead therefore receives the bytes before it, too, but at most once.

use crate::error::Result;
use crate::loader::transfer::overlap::changed_bytes;
use crate::loader::transfer::truncated::truncated_error;
use crate::source::{Body, Buffer};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The length of a block, and thus of the overlap. The digests of a file of 10 GB need 5 MiB.
const BLOCK_BYTES: u64 = 64 << 10;

/// The digests of the blocks at the start of a file that were read.
#[derive(Debug, Default)]
pub(crate) struct SeenBlocks(RefCell<Vec<[u8; 32]>>);

impl SeenBlocks {
    /// The range to request for `range`: it starts at a block that can be compared, or at the start of the file, and
    /// contains whole blocks as far as they are known, but nothing beyond the file: some servers refuse that.
    pub(crate) fn around(&self, range: &Range<u64>, file_length: Option<u64>) -> Range<u64> {
        let count = self.0.borrow().len() as u64;
        let start = (range.start - range.start % BLOCK_BYTES).min(count.saturating_sub(1) * BLOCK_BYTES);
        let is_end_known = range.end < count * BLOCK_BYTES;
        let end = if is_end_known { range.end.next_multiple_of(BLOCK_BYTES) } else { range.end };
        start..file_length.map_or(end, |length| end.min(length).max(range.end))
    }

    /// The end up to which a response that ends at `end` can be read: a known block is compared as a whole, so that a
    /// part of it is of no use.
    pub(crate) fn readable_end(&self, end: u64, file_length: Option<u64>) -> u64 {
        let is_known = self.digest(end / BLOCK_BYTES).is_some() && file_length != Some(end);
        if is_known { end - end % BLOCK_BYTES } else { end }
    }

    fn digest(&self, number: u64) -> Option<[u8; 32]> {
        self.0.borrow().get(usize::try_from(number).ok()?).copied()
    }

    /// Records the digest of a block, or compares it if it is known already.
    ///
    /// # Errors
    /// `CHANGED` if the block had other bytes before.
    fn check(&self, block: Range<u64>, digest: [u8; 32]) -> Result<()> {
        let number = block.start / BLOCK_BYTES;
        match self.digest(number) {
            Some(known) if known == digest => Ok(()),
            Some(_) => Err(changed_bytes(block)),
            None => {
                let mut digests = self.0.borrow_mut();
                if digests.len() as u64 == number {
                    digests.push(digest);
                }
                Ok(())
            }
        }
    }
}

/// A body whose blocks are compared with those that were read before, and recorded otherwise.
pub(crate) struct SeenBody<B: Body> {
    body: B,
    seen: Rc<SeenBlocks>,
    file_length: Option<u64>,
    /// The offset of the body's next byte in the file.
    position: u64,
    /// Hashes the current block; `None` if the body started within it.
    hasher: Option<blake3::Hasher>,
    /// The current block if it is known: it is compared before its bytes are passed on.
    known: Option<B::Buffer>,
    /// The part of `known` that was not passed on yet.
    left: Range<u64>,
}

impl<B: Body> SeenBody<B> {
    /// `body` starts at the offset `start` of the file.
    pub(crate) fn new(body: B, start: u64, seen: Rc<SeenBlocks>, file_length: Option<u64>) -> Self {
        let hasher = start.is_multiple_of(BLOCK_BYTES).then(blake3::Hasher::new);
        SeenBody { body, seen, file_length, position: start, hasher, known: None, left: 0..0 }
    }

    /// Whether the last read returned bytes from a cache.
    pub(crate) fn is_cached(&self) -> bool {
        self.body.is_cached()
    }

    /// Like [`Body::read`].
    ///
    /// # Errors
    /// Those of [`Body::read`]; `CHANGED` if the bytes differ from those that were read before.
    pub(crate) async fn read(&mut self, into: &mut B::Buffer, at: Range<u64>) -> Result<u64> {
        if self.left.is_empty() && self.is_known_block() {
            self.read_known_block().await?;
        }
        if let Some(known) = self.known.as_ref().filter(|_| !self.left.is_empty()) {
            let count = (self.left.end - self.left.start).min(at.end - at.start);
            into.copy(at.start, known, self.left.start..self.left.start + count)?;
            self.left.start += count;
            return Ok(count);
        }
        let count = self.body.read(into, at.clone()).await?;
        into.inspect(at.start..at.start + count, &mut |bytes| self.update(bytes))?;
        Ok(count)
    }

    /// Whether a block begins that was read before.
    fn is_known_block(&self) -> bool {
        self.position.is_multiple_of(BLOCK_BYTES) && self.seen.digest(self.position / BLOCK_BYTES).is_some()
    }

    async fn read_known_block(&mut self) -> Result<()> {
        let mut block = match self.known.take() {
            Some(block) if block.is_intact() => block,
            _ => B::Buffer::allocate(BLOCK_BYTES)?,
        };
        let start = self.position;
        let length = BLOCK_BYTES.min(self.file_length.map_or(u64::MAX, |length| length.saturating_sub(start)));
        let mut filled = 0;
        while filled < length {
            let count = self.body.read(&mut block, filled..length).await?;
            if count == 0 {
                return Err(truncated_error(start, start + filled, start + length));
            }
            filled += count;
        }
        block.inspect(0..length, &mut |bytes| self.update(bytes))?;
        self.known = Some(block);
        self.left = 0..length;
        Ok(())
    }

    /// Hashes the next bytes, and checks each block at its end.
    fn update(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let left = BLOCK_BYTES - self.position % BLOCK_BYTES;
            let (now, later) = bytes.split_at(bytes.len().min(left as usize));
            self.position += now.len() as u64;
            if let Some(hasher) = &mut self.hasher {
                hasher.update(now);
            }
            if self.position.is_multiple_of(BLOCK_BYTES) || self.file_length == Some(self.position) {
                let block = (self.position - 1) / BLOCK_BYTES * BLOCK_BYTES..self.position;
                if let Some(hasher) = self.hasher.replace(blake3::Hasher::new()) {
                    self.seen.check(block, hasher.finalize().into())?;
                }
            }
            bytes = later;
        }
        Ok(())
    }
}
