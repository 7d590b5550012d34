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
mod open;
mod overlap;
mod previous_revision;
mod reachability;
mod read_ahead;
mod report;
mod revalidate;
#[cfg(feature = "js")]
mod takeover;
mod version;
mod writer;

use super::fetch::FetchSource;
use super::js_buffer::JsBuffer;
use super::{Buffer, RangeResponse};
use crate::cache::client::Client;
#[cfg(feature = "js")]
use crate::cache::key;
use crate::cache::{PIECE_BYTES, end_of_read};
use crate::error::Result;
use crate::index::{CopiedRange, Digest};
pub(crate) use body::CachedBody;
use content::{Location, Writes};
use file::CachedFile;
use js_sys::Uint8Array;
pub(crate) use key_function::KeyFunction;
#[cfg(feature = "js")]
pub(crate) use open::open;
pub(crate) use report::Report;
use std::ops::Range;
use std::rc::Rc;
#[cfg(feature = "js")]
pub(crate) use takeover::Event;

/// A file at a URL with a cache.
#[derive(Debug, Clone)]
pub(crate) struct CachedSource {
    file: Rc<CachedFile>,
}

impl CachedSource {
    /// Caches the file of `source` in `cache`.
    ///
    /// # Errors
    /// Those of [`KeyFunction::name`].
    pub(crate) fn new(
        source: FetchSource,
        cache: Rc<Client>,
        key_function: KeyFunction,
        report: Rc<Report>,
    ) -> Result<Self> {
        let file = CachedFile::new(source, cache, key_function, report)?;
        Ok(CachedSource { file: Rc::new(file) })
    }

    /// The source of bytes that are not cached.
    pub(crate) fn source(&self) -> &FetchSource {
        &self.file.source
    }

    /// The name of the file in the cache.
    #[cfg(feature = "js")]
    pub(crate) fn name(&self) -> &str {
        key::name_in(&self.file.key)
    }

    /// Caches another file of the model in the same cache.
    ///
    /// # Errors
    /// Those of [`CachedSource::new`].
    pub(crate) fn with(&self, source: FetchSource) -> Result<Self> {
        let CachedFile { cache, key_function, report, .. } = &*self.file;
        CachedSource::new(source, Rc::clone(cache), key_function.clone(), Rc::clone(report))
    }

    /// Implements [`Source::expect_whole`](super::Source::expect_whole).
    pub(crate) fn expect_whole(&self, digest: &Digest) {
        self.file.contents.expect_whole(digest);
    }

    /// Implements [`Source::expect`](super::Source::expect).
    pub(crate) fn expect(&self, range: Range<u64>, digest: &Digest) {
        self.file.contents.expect(range, digest);
    }

    /// Implements [`Source::expect_copies`](super::Source::expect_copies).
    pub(crate) fn expect_copies(&self, files: &[CachedSource], ranges: &[CopiedRange]) {
        let keys = files.iter().map(|previous| previous.file.key.to_string());
        self.file.previous.expect(keys, ranges);
    }

    /// Implements [`CacheHints::holds`](super::CacheHints::holds).
    pub(crate) async fn holds(&self, digest: &Digest) -> bool {
        self.file.contents.expect_whole(digest);
        self.file.contents.locate_whole().await.is_ok_and(|version| version.is_some())
    }

    /// Implements [`CacheHints::has_contents`](super::CacheHints::has_contents).
    pub(crate) async fn has_contents(&self, digests: &[Digest]) -> Vec<bool> {
        self.file.contents.have(digests).await.unwrap_or_else(|_| vec![false; digests.len()])
    }

    /// Implements [`CacheHints::read_content`](super::CacheHints::read_content). An error of the cache is a missing
    /// byte.
    pub(crate) async fn read_content(
        &self,
        digest: &Digest,
        byte_length: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let Ok(Some(location)) = self.file.contents.locate_one(digest, byte_length).await else { return Ok(false) };
        let Location { key, version, range } = location;
        let cache = &self.file.cache;
        let mut at = range.start;
        while at < range.end {
            let first = at..range.end.min(end_of_read(at));
            let read = cache.read(&key, &version, first, range.end, cache.read_buffer()).bytes().await;
            let Ok((count @ 1.., _, buffer)) = read else { return Ok(false) };
            let bytes = Uint8Array::new_with_byte_offset_and_length(&buffer, 0, count as u32);
            JsBuffer::owned(bytes).inspect(0..count, take)?;
            cache.recycle(buffer);
            at += count;
        }
        Ok(true)
    }

    /// The bytes of the file at the start of a range, at most one piece; `None` if they are not cached. Sends no
    /// request.
    #[cfg(feature = "js")]
    pub(crate) async fn cached_piece(&self, range: Range<u64>) -> Option<Uint8Array> {
        let CachedFile { cache, key, .. } = &*self.file;
        let version = self.file.version()?;
        let first = range.start..range.end.min(end_of_read(range.start));
        let read = cache.read(version.key(key), &version.name, first, range.end, cache.read_buffer()).bytes().await;
        let (count, _, buffer) = read.ok()?;
        (count > 0).then(|| Uint8Array::new_with_byte_offset_and_length(&buffer, 0, count as u32))
    }

    /// Implements [`CacheHints::forget_content`](super::CacheHints::forget_content).
    pub(crate) fn forget_content(&self, digest: &Digest) {
        self.file.contents.forget(digest);
    }

    /// Implements [`Source::reject`](super::Source::reject).
    pub(crate) fn reject(&self) {
        self.file.reject();
    }

    /// Implements [`Source::expect_buffers`](super::Source::expect_buffers).
    pub(crate) fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        let is_large = |range: &Range<u64>| range.end.saturating_sub(range.start) >= PIECE_BYTES;
        ranges.into_iter().filter(is_large).for_each(|range| self.file.add_buffer(range));
    }

    /// Implements [`Source::confirm`](super::Source::confirm).
    pub(crate) fn confirm(&self, range: Range<u64>, digest: &Digest) {
        let writes = if self.file.writes_disabled.get() { Writes::Disabled } else { Writes::Enabled };
        self.file.contents.confirm(range, digest, writes);
    }

    /// Implements [`Source::read`](super::Source::read).
    ///
    /// # Errors
    /// Those of [`Source::read`](super::Source::read). A cache error does not fail the read.
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<RangeResponse<CachedBody>> {
        self.file.open().await?;
        CachedBody::start(Rc::clone(&self.file), range).await
    }
}
