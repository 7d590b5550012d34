//! Files of a signed model: only bytes that match the signature are passed on.
//!
//! A signature states the digest of a whole file, but most reads need only parts of it. The first read of a file
//! therefore reads all of it once, compares its digest, and computes the digest of each block. Later reads, which may
//! get their bytes from another response, are compared block by block.

use crate::algorithm::Algorithm;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::signed_digests::SignedDigests;
use crate::loader::transfer::seen_blocks::SeenBody;
use crate::loader::transfer::truncated::truncated_error;
use crate::signature::{SignedFile, SignedFiles};
use crate::source::{Body, Buffer};
use futures::lock::Mutex;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The length of a block. The digests of a file of 100 GB need 12 MiB, and reading one byte reads a block.
const BLOCK_BYTES: u64 = 256 << 10;

/// What the signature states about one file.
pub(crate) struct SignedContent {
    /// The path of the file in the signed folder.
    path: String,
    files: Arc<SignedFiles>,
    content: SignedFile,
    /// Held while the whole file is read.
    checking: Mutex<()>,
    blocks: RefCell<Option<Rc<Blocks>>>,
}

/// The digests of the blocks of a file whose signed digest was compared.
pub(crate) struct Blocks {
    file_length: u64,
    /// BLAKE3, which is faster than SHA-256.
    digests: Vec<[u8; 32]>,
}

impl SignedContent {
    /// The file that the caller opens, which has this name.
    ///
    /// # Errors
    /// `SIGNATURE` if the signature does not list it.
    pub(crate) fn opened(signature: &SignedDigests, file_name: Option<String>) -> Result<Self> {
        let files = Arc::clone(&signature.files);
        let path = match (&signature.path, file_name) {
            (Some(path), _) => path.clone(),
            (None, _) if files.of(".").is_ok() => ".".to_owned(),
            (None, name) => name.unwrap_or_else(|| ".".to_owned()),
        };
        SignedContent::new(files, path)
    }

    /// Another file of the model, by its path relative to the folder of this one.
    ///
    /// # Errors
    /// `SIGNATURE` if the signature does not list it.
    pub(crate) fn part(&self, path: &str) -> Result<Self> {
        let folder = self.path.rfind('/').and_then(|end| self.path.get(..=end)).unwrap_or_default();
        SignedContent::new(Arc::clone(&self.files), format!("{folder}{path}"))
    }

    fn new(files: Arc<SignedFiles>, path: String) -> Result<Self> {
        let content = files.of(&path)?.clone();
        Ok(SignedContent { path, files, content, checking: Mutex::default(), blocks: RefCell::default() })
    }

    /// The digest of the whole file, if the signature states it.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.content.whole()
    }

    /// The algorithm of the digests in the signature.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.files.algorithm()
    }

    /// The digests of the blocks, once the file was compared with the signature.
    pub(crate) fn blocks(&self) -> Option<Rc<Blocks>> {
        self.blocks.borrow().clone()
    }

    /// Compares a file without bytes with the signature.
    ///
    /// # Errors
    /// `SIGNATURE` if another file was signed.
    pub(crate) fn check_empty(&self) -> Result<()> {
        self.content.check().finish()
    }

    /// Compares the whole file with the signature, unless this was done before. `read` reads it, and passes its bytes
    /// on in order.
    ///
    /// # Errors
    /// `SIGNATURE` if it is another file; those of `read`.
    pub(crate) async fn check(
        &self,
        read: impl AsyncFnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let _one_at_a_time = self.checking.lock().await;
        if self.blocks.borrow().is_some() {
            return Ok(());
        }
        let (mut check, mut block, mut digests) = (self.content.check(), blake3::Hasher::new(), Vec::new());
        let mut position = 0;
        read(&mut |mut bytes| {
            check.update(bytes)?;
            while !bytes.is_empty() {
                let left = BLOCK_BYTES - position % BLOCK_BYTES;
                let (now, later) = bytes.split_at(bytes.len().min(left as usize));
                block.update(now);
                position += now.len() as u64;
                if position.is_multiple_of(BLOCK_BYTES) {
                    digests.push(block.finalize().into());
                    block.reset();
                }
                bytes = later;
            }
            Ok(())
        })
        .await?;
        let file_length = check.position();
        if !file_length.is_multiple_of(BLOCK_BYTES) {
            digests.push(block.finalize().into());
        }
        check.finish()?;
        *self.blocks.borrow_mut() = Some(Rc::new(Blocks { file_length, digests }));
        Ok(())
    }
}

impl Blocks {
    pub(crate) fn file_length(&self) -> u64 {
        self.file_length
    }

    /// The blocks that contain `range`.
    pub(crate) fn around(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.min(self.file_length).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(self.file_length);
        range.start - range.start % BLOCK_BYTES..end.min(self.file_length).max(range.start.saturating_add(1))
    }

    /// The end up to which a response that ends at `end` can be read: blocks are compared as a whole.
    pub(crate) fn readable_end(&self, end: u64) -> u64 {
        if end < self.file_length { end - end % BLOCK_BYTES } else { end }
    }
}

/// The stored bytes of a file: as they are, or compared block by block with the signature or with earlier reads.
pub(crate) enum StoredBody<B: Body> {
    Plain(B),
    Checked(Box<CheckedBody<B>>),
    Seen(Box<SeenBody<B>>),
}

pub(crate) struct CheckedBody<B: Body> {
    body: B,
    blocks: Rc<Blocks>,
    /// The current block.
    block: B::Buffer,
    /// The offset of the current block in the file.
    start: u64,
    length: u64,
    /// The number of bytes of the block that were read.
    read: u64,
}

impl<B: Body> StoredBody<B> {
    /// `body` starts at the offset `start` of the file.
    pub(crate) fn new(body: B, start: u64, blocks: Option<Rc<Blocks>>) -> Result<Self> {
        let Some(blocks) = blocks else { return Ok(StoredBody::Plain(body)) };
        if !start.is_multiple_of(BLOCK_BYTES) {
            return Err(Error::new(ErrorKind::Internal, "a response for a signed file does not start at a block"));
        }
        let block = B::Buffer::allocate(BLOCK_BYTES)?;
        Ok(StoredBody::Checked(Box::new(CheckedBody { body, blocks, block, start, length: 0, read: 0 })))
    }
}

impl<B: Body> Body for StoredBody<B> {
    type Buffer = B::Buffer;

    async fn read(&mut self, into: &mut B::Buffer, at: Range<u64>) -> Result<u64> {
        match self {
            StoredBody::Plain(body) => body.read(into, at).await,
            StoredBody::Checked(checked) => checked.read(into, at).await,
            StoredBody::Seen(seen) => seen.read(into, at).await,
        }
    }

    fn is_cached(&self) -> bool {
        match self {
            StoredBody::Plain(body) => body.is_cached(),
            StoredBody::Checked(checked) => checked.body.is_cached(),
            StoredBody::Seen(seen) => seen.is_cached(),
        }
    }
}

impl<B: Body> CheckedBody<B> {
    async fn read(&mut self, into: &mut B::Buffer, at: Range<u64>) -> Result<u64> {
        if self.read == self.length {
            self.next_block().await?;
        }
        let count = (self.length - self.read).min(at.end - at.start);
        into.copy(at.start, &self.block, self.read..self.read + count)?;
        self.read += count;
        Ok(count)
    }

    async fn next_block(&mut self) -> Result<()> {
        let start = self.start + self.length;
        let length = BLOCK_BYTES.min(self.blocks.file_length.saturating_sub(start));
        let mut filled = 0;
        while filled < length {
            let count = self.body.read(&mut self.block, filled..length).await?;
            if count == 0 {
                return Err(truncated_error(start, start + filled, start + length));
            }
            filled += count;
        }
        (self.start, self.length, self.read) = (start, length, 0);
        if length > 0 {
            self.compare().map_err(|error| error.at(start..start + length))?;
        }
        Ok(())
    }

    fn compare(&self) -> Result<()> {
        let number = usize::try_from(self.start / BLOCK_BYTES).unwrap_or(usize::MAX);
        let stated = self.blocks.digests.get(number);
        let mut hasher = blake3::Hasher::new();
        self.block.inspect(0..self.length, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        if stated.is_some_and(|stated| hasher.finalize() == *stated) {
            return Ok(());
        }
        let what = "the file is not the one that was compared with the signature: its bytes have changed since";
        Err(Error::new(ErrorKind::Signature, what))
    }
}
