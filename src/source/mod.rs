//! Byte sources: [`Source::read`] requests a range, and [`Body::read`] copies its bytes into buffers.
//!
//! Sources only send requests and check responses. The loader decides which ranges to request and in which order, and
//! processes the bytes.

#[cfg(any(remote, test))]
pub(crate) mod answer;
#[cfg(web)]
mod blob;
#[cfg(web)]
pub(crate) mod bytes;
#[cfg(workers)]
pub(crate) mod cached;
#[cfg(any(feature = "js", all(test, native)))]
mod coverage;
#[cfg(feature = "js")]
mod cross_origin;
#[cfg(remote)]
mod exchange;
#[cfg(web)]
#[doc(hidden)]
pub mod fetch;
#[cfg(web)]
mod files;
#[cfg(remote)]
mod history;
#[cfg(http_client)]
#[doc(hidden)]
pub mod http;
#[cfg(web)]
#[doc(hidden)]
pub mod js_buffer;
#[cfg(all(workers, feature = "js"))]
mod late_cache;
#[doc(hidden)]
pub mod memory;
#[cfg(remote)]
mod mirror;
#[cfg(remote)]
pub(crate) mod mirrors;
#[cfg(remote)]
pub(crate) mod part_urls;
#[cfg(web)]
mod stream;
#[cfg(web)]
#[doc(hidden)]
pub mod web;

pub use crate::buffer::Buffer;
use crate::error::Result;
pub use crate::host::Host;
use crate::host::NoWaiting;
pub use crate::identity::Identity;
use crate::index::{CopiedRange, Digest};
use futures::future::LocalBoxFuture;
#[cfg(remote)]
pub use mirror::Mirror;
#[cfg(remote)]
#[doc(hidden)]
pub use part_urls::{MapPartUrl, PartUrls};
use std::fmt;
use std::ops::Range;

/// The buffers that the bodies of a source are read into.
pub(crate) type BufferOf<S> = <<S as Source>::Body as Body>::Buffer;

/// A file that is read by byte ranges: a URL, a Blob, a local file or memory. Its length and version are part of every
/// response, because a separate request for them would take a round trip.
#[allow(async_fn_in_trait, reason = "loaders run on one thread, so the futures need no `Send` bound")]
pub trait Source: CacheHints {
    /// The body of a response.
    type Body: Body;

    /// The URL or path of the file, for error messages.
    fn name(&self) -> &str;

    /// Requests `range`, which must not be empty. Its end may be beyond the end of the file.
    ///
    /// # Errors
    /// `HTTP`, `NETWORK` or `IO`, depending on the source; `RANGE_UNSUPPORTED` for a response that is neither the range
    /// nor the whole file; `TRUNCATED` if the range starts beyond the end of the file.
    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<Self::Body>>;

    /// Whether the bytes never change, as those in memory. A resumed read then needs no check for changes.
    fn is_immutable(&self) -> bool {
        false
    }

    /// The clock, timers and random numbers of the platform. By default, no time passes and waits end at once, as is
    /// right for bytes that arrive at once and never fail.
    fn host(&self) -> &dyn Host {
        &NoWaiting
    }
}

/// A [`Source`] from which the other files of its model can be opened.
#[allow(async_fn_in_trait, reason = "as for Source")]
pub trait ModelSource: Source {
    /// The file name without folders, which may be passed to [`ModelSource::part`]. It is not percent-encoded. `None`
    /// if the file has no name.
    fn file_name(&self) -> Option<String>;

    /// The file at `path`, for models in several files. `path` is relative to the folder of this file and does not
    /// leave it. It is a file path, not a URL: an implementation for URLs must percent-encode it.
    ///
    /// # Errors
    /// `NOT_FOUND` or `UNSUPPORTED` if this source has no such file.
    fn part(&self, path: &str) -> Result<Self>;

    /// The file at `url`, an http(s) URL in a manifest. The URL may have any host, so the caller's headers and
    /// credentials must not be sent there. `path` is the path of the file relative to this one, or empty. Sources
    /// without a URL use `path`, because their files were downloaded before.
    ///
    /// # Errors
    /// Those of [`ModelSource::part`].
    fn part_at_url(&self, url: &str, path: &str) -> Result<Self> {
        self.part(path).map_err(|mut error| {
            error.what =
                format!("{}; its manifest entry {url} is used only if the model is opened from a URL", error.what);
            error
        })
    }

    /// The file that an address stands for, before it is read: a file on a hub gets the commit of its revision.
    ///
    /// # Errors
    /// Depending on the source, for an address that stands for no file.
    #[doc(hidden)]
    async fn located(self) -> Result<Self> {
        Ok(self)
    }

    /// The other files beside the model and in folders beside it, if the address is that of a whole repository, by
    /// their paths relative to the folder of this file.
    #[doc(hidden)]
    fn files_beside(&self) -> Vec<String> {
        Vec::new()
    }

    /// The addresses of the model, if there are several, and what each has sent.
    #[doc(hidden)]
    #[cfg(http_client)]
    fn mirrors(&self) -> Vec<Mirror> {
        Vec::new()
    }

    /// The digest of the whole file that its host states, if it does. Calls that read the whole file compare it.
    #[doc(hidden)]
    fn stated_digest(&self) -> Option<Digest> {
        None
    }
}

/// What the loader knows about the bytes that it reads, for a source with a cache. A source without a cache ignores all
/// of it: `impl CacheHints for MySource {}`.
pub trait CacheHints: Sized + 'static {
    /// Sets the expected strong digest of the whole file, before its first read. A cache may use bytes with this digest
    /// from another URL, without any request.
    #[doc(hidden)]
    fn expect_whole(&self, digest: &Digest) {
        let _ = digest;
    }

    /// Sets the strong digest of the bytes of `range` according to the index. A cache may use bytes with this digest
    /// from another URL.
    #[doc(hidden)]
    fn expect(&self, range: Range<u64>, digest: &Digest) {
        let _ = (range, digest);
    }

    /// States which bytes of this file the `files` of the previous revision of the model have, too. A cache may use
    /// them. The ranges are sorted and do not overlap. Called at most once, before the first read.
    #[doc(hidden)]
    fn expect_copies(&self, files: &[Self], ranges: &[CopiedRange]) {
        let _ = (files, ranges);
    }

    /// Whether all bytes of the file, with this strong digest, can be read without a request: a cache has them.
    #[doc(hidden)]
    #[allow(async_fn_in_trait, reason = "as for Source")]
    async fn holds(&self, digest: &Digest) -> bool {
        let _ = digest;
        false
    }

    /// Whether a cache has the bytes with each of these strong digests, under any URL.
    #[doc(hidden)]
    #[allow(async_fn_in_trait, reason = "as for Source")]
    async fn has_contents(&self, digests: &[Digest]) -> Vec<bool> {
        vec![false; digests.len()]
    }

    /// Passes the bytes with this strong digest to `take`, in order, if a cache has them under any URL. Returns false
    /// if bytes are missing. The caller compares the digest.
    ///
    /// # Errors
    /// Those of `take`.
    #[doc(hidden)]
    #[allow(async_fn_in_trait, reason = "as for Source")]
    async fn read_content(
        &self,
        digest: &Digest,
        byte_length: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let _ = (digest, byte_length, take);
        Ok(false)
    }

    /// Reports that the bytes of [`CacheHints::read_content`] have another digest.
    #[doc(hidden)]
    fn forget_content(&self, digest: &Digest) {
        let _ = digest;
    }

    /// Announces ranges that will be read, each completely into its own buffer of at most 4 MiB. A cache may read them
    /// directly into such buffers, which saves a copy.
    #[doc(hidden)]
    fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        let _ = ranges;
    }

    /// Reports that the bytes of `range` were read and have this strong digest.
    #[doc(hidden)]
    fn confirm(&self, range: Range<u64>, digest: &Digest) {
        let _ = (range, digest);
    }

    /// Reports that the bytes have a wrong digest or violate their format. A cache must delete them, because every
    /// later load would fail in the same way.
    #[doc(hidden)]
    fn reject(&self) {}
}

/// A response of a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RangeResponse<B> {
    /// Offset of the body in the file: the start of the range, or 0 if the server ignored the range.
    pub start: u64,
    /// End offset of the body in the file, if known.
    pub end: Option<u64>,
    /// Length of the file in bytes, if known.
    pub file_length: Option<u64>,
    /// Whether the server ignored the range and the body is the whole file.
    pub is_whole_file: bool,
    /// Whether the media type is that of a web page. Some servers send all files so.
    #[doc(hidden)]
    pub is_page: bool,
    /// Whether the validators are those with which the bytes were cached, not those of a response.
    #[doc(hidden)]
    pub is_cached: bool,
    /// Identifies the version of the file.
    pub identity: Identity,
    /// The body.
    pub body: B,
}

impl<B> RangeResponse<B> {
    /// A response with a body at the offset `start`. All other fields are unknown and may be set afterwards.
    pub fn new(start: u64, body: B) -> Self {
        let (end, file_length, is_whole_file, is_page, is_cached, identity) = Default::default();
        RangeResponse { start, end, file_length, is_whole_file, is_page, is_cached, identity, body }
    }

    /// Converts the body to another type.
    #[doc(hidden)]
    pub fn map<C>(self, change: impl FnOnce(B) -> C) -> RangeResponse<C> {
        let RangeResponse { start, end, file_length, is_whole_file, is_page, is_cached, identity, body } = self;
        RangeResponse { start, end, file_length, is_whole_file, is_page, is_cached, identity, body: change(body) }
    }
}

/// Reads like [`Body::read`], for bodies of several types.
pub(crate) trait ReadBody<B> {
    fn read<'a>(&'a mut self, into: &'a mut B, at: Range<u64>) -> LocalBoxFuture<'a, Result<u64>>;
}

impl<B> fmt::Debug for dyn ReadBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadBody")
    }
}

/// The body of a response. Dropping it before its end cancels the transfer.
#[allow(async_fn_in_trait, reason = "as for Source")]
pub trait Body: 'static {
    /// The type of buffer that the bytes are copied to.
    type Buffer: Buffer;

    /// Copies the next bytes to the range `at` of `into`, which must not be empty, and returns their number. Returns 0
    /// at the end of the body. A read may return fewer bytes than fit before the end of the body.
    ///
    /// # Errors
    /// `NETWORK` if the connection breaks, `IO` if the disk fails.
    async fn read(&mut self, into: &mut Self::Buffer, at: Range<u64>) -> Result<u64>;

    /// Whether the last read returned bytes from a cache.
    #[doc(hidden)]
    fn is_cached(&self) -> bool {
        false
    }
}
