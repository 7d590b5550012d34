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
mod key_function;
mod lease;
mod overlap;
mod previous_revision;
mod reachability;
mod read_ahead;
mod revalidate;
mod writer;

use super::RangeResponse;
use super::fetch::FetchSource;
use super::stream::StreamBody;
use crate::browser::lock::Lock;
use crate::cache::client::{Client, version_of};
use crate::cache::{PIECE_BYTES, key};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::index::{CopiedRange, Digest};
pub(crate) use body::CachedBody;
use content::ExpectedContents;
use futures::lock::Mutex;
pub(crate) use key_function::KeyFunction;
use lease::Lease;
use previous_revision::PreviousRevision;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::{Rc, Weak};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

/// A file at a URL with a cache.
#[derive(Debug, Clone)]
pub(crate) struct CachedSource {
    file: Rc<CachedFile>,
}

/// Whether the files of one loader are cached, and the errors of the cache.
#[derive(Debug, Default)]
pub(crate) struct Report {
    error: RefCell<Option<String>>,
    is_caching: Cell<bool>,
}

#[derive(Debug)]
struct CachedFile {
    source: FetchSource,
    cache: Rc<Client>,
    key_function: KeyFunction,
    /// The cache key.
    key: String,
    /// A hash of the credentials of its requests.
    partition: Option<String>,
    /// Whether requests use credentials or a signed URL. The server must then confirm access before cached bytes are
    /// used.
    is_private: bool,
    report: Rc<Report>,
    /// Whether the cache was queried for the file.
    is_open: Mutex<bool>,
    /// The version that is read, once it is known.
    version: RefCell<Option<Version>>,
    /// Held while this page downloads the file, so that other tabs wait for the bytes that it caches.
    lease: RefCell<Weak<Lease>>,
    /// Whether another tab held the lease for long without caching bytes. This page then no longer waits for it.
    is_peer_stalled: Cell<bool>,
    /// Whether no more bytes of the file are cached.
    writes_disabled: Cell<bool>,
    /// Number of cached bytes that are requested again and compared when a download continues after them.
    overlap_bytes: Cell<u64>,
    contents: ExpectedContents,
    previous: PreviousRevision,
    /// Start and end of the ranges that are read into buffers of their own.
    buffers: RefCell<BTreeMap<u64, u64>>,
}

#[derive(Debug, Clone)]
struct Version {
    identity: Identity,
    name: Rc<str>,
    /// The cache key of another file that has the same content, if the bytes come from there. The server's file is then
    /// not known to be this version.
    other_key: Option<Rc<str>>,
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
        let url = source.cache_url();
        let (name, partition) = (key_function.name(&url)?, source.partition());
        let is_private = partition.is_some() || name != url;
        let key = key::join(partition.as_deref(), &name);
        let (is_open, version, lease, is_peer_stalled, writes_disabled) = Default::default();
        let (contents, previous, buffers) = Default::default();
        let file = CachedFile {
            source,
            cache,
            key_function,
            key,
            partition,
            is_private,
            report,
            is_open,
            version,
            lease,
            is_peer_stalled,
            writes_disabled,
            overlap_bytes: Cell::new(overlap::OVERLAP_BYTES),
            contents,
            previous,
            buffers,
        };
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
        self.file.contents.expect(&self.file, range, digest);
    }

    /// Implements [`Source::expect_copies`](super::Source::expect_copies).
    pub(crate) fn expect_copies(&self, files: &[CachedSource], ranges: &[CopiedRange]) {
        self.file.previous.expect(files, ranges);
    }

    /// Implements [`Source::reject`](super::Source::reject).
    pub(crate) fn reject(&self) {
        self.file.reject();
    }

    /// Implements [`Source::expect_buffers`](super::Source::expect_buffers).
    pub(crate) fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        let large = ranges.into_iter().filter(|range| range.end.saturating_sub(range.start) >= PIECE_BYTES);
        self.file.buffers.borrow_mut().extend(large.map(|range| (range.start, range.end)));
    }

    /// Implements [`Source::confirm`](super::Source::confirm).
    pub(crate) fn confirm(&self, range: Range<u64>, digest: &Digest) {
        content::confirm(&self.file, range, digest);
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

impl Report {
    /// The first cache error, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.borrow().clone()
    }

    /// Whether what is downloaded is cached, as far as it is known.
    #[cfg(feature = "js")]
    pub(crate) fn is_caching(&self) -> bool {
        self.is_caching.get()
    }

    /// Records whether there is a cache.
    pub(crate) fn set_caching(&self, is_caching: bool) {
        self.is_caching.set(is_caching);
    }

    pub(crate) fn note(&self, error: &Error) {
        self.error.borrow_mut().get_or_insert_with(|| error.what.clone());
    }
}

impl CachedFile {
    fn version(&self) -> Option<Version> {
        self.version.borrow().clone()
    }

    fn length(&self) -> Option<u64> {
        self.version.borrow().as_ref().and_then(|version| version.identity.length)
    }

    /// Queries the cache once for the file.
    async fn open(&self) -> Result<()> {
        let mut is_open = self.is_open.lock().await;
        if !*is_open {
            // If the digest is known, the version need not be checked. Access to a private file must be.
            match self.contents.locate_whole(self).await {
                Ok(Some(version)) => {
                    if self.is_private {
                        revalidate::revalidate(self).await?;
                    }
                    *self.version.borrow_mut() = Some(version);
                }
                Ok(None) => self.look_up().await?,
                Err(error) => self.disable_writes(&error),
            }
            *is_open = true;
        }
        Ok(())
    }

    /// Queries the cached version and revalidates it. Deletes it if the server has another version.
    async fn look_up(&self) -> Result<()> {
        let cached = match self.cache.open(&self.key).await {
            Ok(Some(cached)) => cached,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.disable_writes(&error);
                return Ok(());
            }
        };
        if self.is_current(&cached).await? {
            *self.version.borrow_mut() = Some(Version::new(cached));
        } else if let Err(error) = self.cache.delete(&self.key, Some(version_of(&cached))).await {
            self.disable_writes(&error);
        }
        Ok(())
    }

    async fn is_current(&self, cached: &Identity) -> Result<bool> {
        Ok(revalidate::revalidate(self).await?.is_none_or(|identity| cached.is_confirmed_by(&identity)))
    }

    /// Adopts the version in a response, if it can be distinguished from later versions.
    fn adopt<B>(&self, answer: &RangeResponse<B>) -> Option<Version> {
        let identity = &answer.identity;
        let what = if identity.etag.is_none() && identity.last_modified.is_none() {
            "the server sends neither an ETag nor a Last-Modified date, so that changes of the file cannot be detected"
        } else if answer.is_whole_file && answer.file_length.is_none() {
            "the server does not send the length of the file"
        } else {
            let version = Version::new(identity.clone());
            *self.version.borrow_mut() = Some(version.clone());
            return Some(version);
        };
        self.disable_writes(&Error::new(ErrorKind::Unsupported, what));
        None
    }

    /// Handles missing bytes of a version that is cached under another key: the following bytes are requested from the
    /// server. If bytes of the version were already read, the server's file must be the same.
    ///
    /// # Errors
    /// `CHANGED` if it is another file: bytes of two files must not be mixed.
    async fn handle_missing_bytes(&self, version: &Version) -> Result<()> {
        self.contents.forget_whole(self, version);
        let same = if self.contents.has_version() { self.contents.compare(self, version).await? } else { None };
        if self.version().is_some_and(|version| version.other_key.is_none()) {
            return Ok(()); // another connection has handled it
        }
        *self.version.borrow_mut() = None;
        self.look_up().await?;
        if let Some(answer) = same
            && !self.version().is_some_and(|version| version.identity.is_confirmed_by(&answer.identity))
        {
            self.adopt(&answer);
        }
        Ok(())
    }

    /// The first range at or after `start` that is read into a buffer of its own.
    fn next_buffer(&self, start: u64) -> Option<Range<u64>> {
        self.buffers.borrow().range(start..).next().map(|(start, end)| *start..*end)
    }

    fn disable_writes(&self, error: &Error) {
        self.report.note(error);
        self.report.set_caching(false);
        self.writes_disabled.set(true);
    }

    /// Sends a request. Returns the response, and the version under which its bytes can be cached: a response may be of
    /// another version than earlier ones.
    async fn fetch(&self, range: Range<u64>) -> Result<(RangeResponse<StreamBody>, Option<Version>)> {
        let answer = self.source.read(range).await?;
        let version = match self.version() {
            Some(version) if version.identity.is_confirmed_by(&answer.identity) => Some(version),
            Some(version) if answer.identity.change_since(&version.identity).is_none() => None,
            // The first write of the new version deletes the old one.
            _ => self.adopt(&answer),
        };
        Ok((answer, version))
    }

    /// Removes wrong bytes from the cache. All bytes of this file are deleted, and those of files of the previous
    /// revision that bytes were copied from. For bytes of another cached file, only the content records are removed:
    /// that file belongs to another model and may be correct.
    fn reject(&self) {
        self.writes_disabled.set(true);
        self.contents.forget_unconfirmed(self);
        match self.version() {
            Some(version) if version.other_key.is_some() => self.contents.forget_whole(self, &version),
            Some(version) => self.delete(self.key.clone(), version.name.to_string()),
            None => {}
        }
        // Otherwise every later load would copy the wrong bytes again.
        for (key, version) in self.previous.take_used() {
            self.delete(key, version);
        }
    }

    /// Deletes a version of a file in the background.
    fn delete(&self, key: String, version: String) {
        let cache = Rc::clone(&self.cache);
        // If it fails, nothing can be done.
        spawn_local(async move { drop(cache.delete(&key, Some(version)).await) });
    }

    /// The lease of this page. Acquires it if no other tab holds it; `None` if one does.
    ///
    /// # Errors
    /// Those of [`Lock::try_now`].
    async fn try_lease(&self) -> Result<Option<Rc<Lease>>, JsValue> {
        let own = || self.lease.borrow().upgrade().filter(|lease| lease.is_held());
        if let Some(lease) = own() {
            return Ok(Some(lease));
        }
        let lock = Lock::try_now(&format!("weightstream load {}", self.key)).await?;
        let lease = lock.map(Lease::new);
        if let Some(lease) = &lease {
            *self.lease.borrow_mut() = Rc::downgrade(lease);
        }
        Ok(lease.or_else(own)) // another connection of this page may have acquired it meanwhile
    }
}

impl Version {
    fn new(identity: Identity) -> Self {
        Version { name: version_of(&identity).into(), identity, other_key: None }
    }

    /// The cache key of this version.
    fn key<'a>(&'a self, file: &'a CachedFile) -> &'a str {
        self.other_key.as_deref().unwrap_or(&file.key)
    }
}
