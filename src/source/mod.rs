//! Where bytes come from: `read` a range, get a body, take its pieces into buffers.
//!
//! Sources are thin. They know how to ask and what an answer must be; what to ask for, in which order,
//! and what to do with the bytes is the loader's.

#[cfg(any(target_arch = "wasm32", feature = "http", test))]
mod answer;
#[cfg(target_arch = "wasm32")]
mod blob;
#[cfg(target_arch = "wasm32")]
pub(crate) mod bytes;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
pub(crate) mod cached;
#[cfg(target_arch = "wasm32")]
pub mod fetch;
#[cfg(target_arch = "wasm32")]
mod files;
#[cfg(any(feature = "http", target_arch = "wasm32"))]
mod history;
#[cfg(all(feature = "http", not(target_arch = "wasm32")))]
pub mod http;
#[cfg(target_arch = "wasm32")]
pub mod js_buffer;
pub mod memory;
#[cfg(target_arch = "wasm32")]
mod stream;
#[cfg(target_arch = "wasm32")]
pub mod web;

use crate::error::Result;
pub use crate::identity::Identity;
use crate::index::Digest;
use std::ops::Range;

/// Something that ranges of bytes can be read from: a URL, a Blob, a file, memory.
#[allow(async_fn_in_trait, reason = "loaders run on one thread, so no bound on the futures is wanted")]
pub trait Source: Sized + 'static {
    /// The bytes on their way.
    type Body: Body;

    /// What errors call it: its URL or path.
    fn name(&self) -> &str;

    /// Its name in its folder, as [`Source::part`] takes one: a file name, not a URL. `None` where it has none.
    fn file_name(&self) -> Option<String>;

    /// Asks for `range`, which is not empty. The end may lie beyond the file's.
    ///
    /// # Errors
    /// `HTTP`, `NETWORK`, `IO` as the source has it; `RANGE_UNSUPPORTED` for an answer that is neither the
    /// range nor the whole; `TRUNCATED` where the file ends before the range begins.
    async fn read(&self, range: Range<u64>) -> Result<Answer<Self::Body>>;

    /// The file at `path` beside this one, for models in several files. `path` is relative, does not lead
    /// out of the folder, and is a file name, not a URL: escape it.
    ///
    /// # Errors
    /// `NOT_FOUND` or `UNSUPPORTED` where this source has no files beside it.
    fn part(&self, path: &str) -> Result<Self>;

    /// The file at `url`, an http(s) URL that a manifest names, which may be of any host: whatever the caller's
    /// headers and credentials are for, they are not for there. `path` is where the file would be beside this one, or
    /// empty. A source that is not at a URL itself takes that: its files were fetched before.
    ///
    /// # Errors
    /// As for [`Source::part`].
    fn elsewhere(&self, url: &str, path: &str) -> Result<Self> {
        self.part(path).map_err(|mut error| {
            error.what = format!(
                "{}, and the model has it at {url}, where only one that is read from a URL can find it",
                error.what
            );
            error
        })
    }

    /// All of the file should have this strong digest, told before anything of it is read: whoever keeps bytes may have
    /// them from elsewhere, and need not ask for any.
    fn expect_whole(&self, digest: &Digest) {
        let _ = digest;
    }

    /// The index says that the bytes of `range` have this strong digest: whoever keeps bytes may have them from
    /// elsewhere.
    fn expect(&self, range: Range<u64>, digest: &Digest) {
        let _ = (range, digest);
    }

    /// These ranges are about to be read, each whole into a buffer of its own, of at most 4 MiB: whoever keeps bytes
    /// may have them in such buffers already, which saves a copy.
    fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        let _ = ranges;
    }

    /// The bytes of `range` have come, and have this strong digest.
    fn confirm(&self, range: Range<u64>, digest: &Digest) {
        let _ = (range, digest);
    }

    /// Whether every answer is of the same bytes, as those of memory are: then no resumed read needs a proof of it.
    fn is_immutable(&self) -> bool {
        false
    }

    /// The bytes do not have the digest that they should, or break the rules of their format: whoever keeps them should
    /// not, or nothing would ever help.
    fn reject(&self) {}

    /// Waits. Dropping the future ends the wait.
    async fn pause(&self, delay_ms: u64);

    /// The time in milliseconds since whenever: what the throughput is measured by. Where it stands still, everything
    /// is read over one connection.
    fn now_ms(&self) -> u64;

    /// A number from 0 to 1, to spread the retries of many clients.
    fn random(&self) -> f64;
}

/// What a source answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answer<B> {
    /// Where the body begins in the file: at the range's start, or at 0 for a server that ignored the range.
    pub start: u64,
    /// Where the body ends, in the file, if that is known.
    pub end: Option<u64>,
    /// The length of the file, if that is known.
    pub file_length: Option<u64>,
    /// Whether the range was ignored and the body is the whole file.
    pub is_whole_file: bool,
    /// What tells this version of the file from another.
    pub identity: Identity,
    /// The bytes.
    pub body: B,
}

impl<B> Answer<B> {
    /// A body that begins at `start`. Set what else is known in the fields.
    pub fn new(start: u64, body: B) -> Self {
        Answer { start, end: None, file_length: None, is_whole_file: false, identity: Identity::default(), body }
    }

    /// The same answer with its body as another type.
    pub fn map<C>(self, change: impl FnOnce(B) -> C) -> Answer<C> {
        let Answer { start, end, file_length, is_whole_file, identity, body } = self;
        Answer { start, end, file_length, is_whole_file, identity, body: change(body) }
    }
}

/// Bytes on their way. Dropping it before its end stops the transfer.
#[allow(async_fn_in_trait, reason = "as for Source")]
pub trait Body: 'static {
    /// Where its bytes can be put.
    type Buffer: Buffer;

    /// Puts the next bytes into `into`, at the start of `at` and not beyond its end, and says how many; 0 at
    /// the end of the body. `at` is not empty. Fewer than fit may come, and be followed by more.
    ///
    /// # Errors
    /// `NETWORK` where the connection broke, `IO` where the disk did.
    async fn read(&mut self, into: &mut Self::Buffer, at: Range<u64>) -> Result<u64>;

    /// Whether the bytes that were read last were kept from an earlier load, so that none came from the source.
    fn is_cached(&self) -> bool {
        false
    }
}

/// Memory that a tensor ends up in: an ArrayBuffer in the browser, a `Vec` elsewhere.
pub trait Buffer: Sized + 'static {
    /// A zeroed buffer of `byte_length` bytes.
    ///
    /// # Errors
    /// `LIMIT` where there is no such memory.
    fn allocate(byte_length: u64) -> Result<Self>;

    /// Its length in bytes.
    fn byte_length(&self) -> u64;

    /// Makes it as long as `byte_length` says: zeros follow what was there, or its end is cut off.
    ///
    /// # Errors
    /// As for [`Buffer::allocate`].
    fn resize(&mut self, byte_length: u64) -> Result<()>;

    /// Copies `bytes` to where `at` says.
    ///
    /// # Errors
    /// `INTERNAL` where they do not fit.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Copies `range` of `from` to where `at` says.
    ///
    /// # Errors
    /// `INTERNAL` where it does not fit.
    fn copy(&mut self, at: u64, from: &Self, range: Range<u64>) -> Result<()>;

    /// Whether the memory is still there. A read that failed may have lost a buffer that it was given.
    fn is_intact(&self) -> bool {
        true
    }

    /// The same memory, for another thread to write to; `None` where threads cannot share it.
    fn share(&self) -> Option<Self> {
        None
    }

    /// Shows the bytes of `range` to `look`, in pieces, in order: copied through a scratch where the buffer
    /// lies outside the program's own memory.
    ///
    /// # Errors
    /// `INTERNAL` where the range is not inside; those of `look`.
    fn inspect(&self, range: Range<u64>, look: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Another buffer with the same bytes.
    ///
    /// # Errors
    /// As for [`Buffer::allocate`].
    fn duplicate(&self) -> Result<Self> {
        let mut copy = Self::allocate(self.byte_length())?;
        let mut at = 0;
        self.inspect(0..self.byte_length(), &mut |bytes| {
            copy.write(at, bytes)?;
            at += bytes.len() as u64;
            Ok(())
        })?;
        Ok(copy)
    }
}
