//! A URL with a cache: cached bytes are not downloaded, and downloaded bytes are cached.
//!
//! One request for one byte checks whether the server still has the cached version of the file. A conditional request
//! would transfer nothing, but a cross-origin `If-None-Match` requires a preflight that few hosts accept. A range
//! requires no preflight, and `Last-Modified` is always readable. Without a connection, the cached version is used
//! (`revalidate`). If the digest of the file is known and the whole file is cached under any URL, no request is sent.
//!
//! Responses to requests with credentials are cached separately ([`key`](crate::cache::key)), also for lookup by
//! digest. These bytes, and those of signed URLs, are used only after the server has confirmed access to the file, or
//! if the server is unreachable.

mod body;
mod comparison;
mod content;
mod file;
mod key_function;
mod lease;
mod overlap;
mod previous_revision;
mod reachability;
mod read_ahead;
mod report;
mod revalidate;
mod version;
mod writer;

use super::RangeResponse;
use super::fetch::FetchSource;
use crate::browser::lock::Lock;
use crate::cache::PIECE_BYTES;
use crate::cache::client::Client;
use crate::error::Result;
use crate::index::{CopiedRange, Digest};
pub(crate) use body::CachedBody;
use file::CachedFile;
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::Uint8Array;
pub(crate) use key_function::KeyFunction;
use lease::Lease;
pub(crate) use report::Report;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use writer::CacheWriter;

/// A file at a URL with a cache.
#[derive(Debug, Clone)]
pub(crate) struct CachedSource {
    file: Rc<CachedFile>,
}

/// A response that arrived before the cache had started, and whose bytes are to be cached.
#[derive(Debug)]
pub(crate) struct EarlyResponse {
    /// The response without its body.
    head: RangeResponse<()>,
    /// Created for the first bytes, when the cache has started. It is dropped, and so writes the last ones, with the
    /// response.
    writer: RefCell<Option<CacheWriter>>,
}

/// What the loader knows of a file: see the methods of [`CacheHints`](super::CacheHints).
pub(crate) enum Hint {
    ExpectWhole(Digest),
    Expect(Range<u64>, Digest),
    ExpectBuffers(Vec<Range<u64>>),
    Confirm(Range<u64>, Digest),
    Reject,
}

impl EarlyResponse {
    pub(crate) fn new(head: RangeResponse<()>) -> Self {
        EarlyResponse { head, writer: RefCell::default() }
    }
}

impl CachedSource {
    /// Caches the file of `source` in `cache` under a name.
    pub(crate) fn new(source: FetchSource, cache: Rc<Client>, name: &str, report: Rc<Report>) -> Self {
        CachedSource { file: Rc::new(CachedFile::new(source, cache, name, report)) }
    }

    /// Uses what the loader knows of the file.
    pub(crate) fn accept(&self, hint: Hint) {
        let file = &self.file;
        match hint {
            Hint::ExpectWhole(digest) => file.contents.expect_whole(&digest),
            Hint::Expect(range, digest) => file.contents.expect(range, &digest),
            Hint::ExpectBuffers(ranges) => {
                let large = ranges.into_iter().filter(|range| range.end.saturating_sub(range.start) >= PIECE_BYTES);
                file.buffers.borrow_mut().extend(large.map(|range| (range.start, range.end)));
            }
            Hint::Confirm(range, digest) => file.contents.confirm(range, &digest, !file.writes_disabled.get()),
            Hint::Reject => file.reject(),
        }
    }

    /// Implements [`CacheHints::expect_copies`](super::CacheHints::expect_copies).
    pub(crate) fn expect_copies(&self, files: &[CachedSource], ranges: &[CopiedRange]) {
        let keys = files.iter().map(|previous| previous.file.key.to_string());
        self.file.previous.expect(keys, ranges);
    }

    /// Implements [`Source::read`](super::Source::read).
    ///
    /// # Errors
    /// Those of [`Source::read`](super::Source::read). A cache error does not fail the read.
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<RangeResponse<CachedBody>> {
        self.file.open().await?;
        CachedBody::start(Rc::clone(&self.file), range).await
    }

    /// Uses the lease that was taken before the cache had started.
    pub(crate) fn hold_lease(&self, lock: Lock) -> Rc<Lease> {
        let lease = Lease::new(lock);
        *self.file.lease.borrow_mut() = Rc::downgrade(&lease);
        lease
    }

    /// Caches bytes at an offset of the file that were received before the cache has started.
    pub(crate) fn write_early<'a>(
        &'a self,
        response: &'a EarlyResponse,
        position: u64,
        bytes: &'a Uint8Array,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let written = response.writer.take();
            let mut writer = match written {
                Some(writer) => writer,
                None => CacheWriter::of_early(&self.file, &response.head).await,
            };
            writer.note_activity();
            writer.push(position, bytes).await;
            response.writer.replace(Some(writer));
        }
        .boxed_local()
    }
}
