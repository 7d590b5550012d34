//! One cached file: its version, its download and what is written of it.

use super::content::ExpectedContents;
use super::key_function::KeyFunction;
use super::lease::Lease;
use super::previous_revision::PreviousRevision;
use super::report::Report;
use super::revalidate::{Access, revalidate};
use super::version::Version;
use crate::browser::lock::Lock;
use crate::cache::client::{Client, version_of};
use crate::cache::key;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::source::RangeResponse;
use crate::source::fetch::FetchSource;
use crate::source::mirrors::COMPARED_BYTES;
use crate::source::stream::StreamBody;
use futures::lock::Mutex;
use js_sys::Uint8Array;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::{Rc, Weak};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

/// Number of cached bytes to compare. It is halved after each failure, so that a connection that breaks within them
/// still makes progress.
const OVERLAP_BYTES: u64 = 64 << 10;

/// A file at a URL: what the cache has of it, and what may be written.
#[derive(Debug)]
pub(super) struct CachedFile {
    pub(super) source: FetchSource,
    pub(super) cache: Rc<Client>,
    pub(super) key_function: KeyFunction,
    /// The cache key.
    pub(super) key: Rc<str>,
    /// If it is private, the server must confirm access before cached bytes are used.
    pub(super) access: Access,
    pub(super) report: Rc<Report>,
    /// Whether the cache was queried for the file.
    pub(super) is_open: Mutex<bool>,
    /// The version that is read, once it is known.
    pub(super) version: RefCell<Option<Version>>,
    /// Held while this page downloads the file, so that other tabs wait for the bytes that it caches.
    pub(super) lease: RefCell<Weak<Lease>>,
    /// Whether another tab held the lease for long without caching bytes. This page then no longer waits for it.
    pub(super) is_peer_stalled: Cell<bool>,
    /// Whether no more bytes of the file are cached.
    pub(super) writes_disabled: Cell<bool>,
    /// Number of cached bytes that are requested again and compared when a download continues after them.
    pub(super) overlap_bytes: Cell<u64>,
    pub(super) contents: ExpectedContents,
    pub(super) previous: PreviousRevision,
    /// The ranges that are read into buffers of their own, in their order.
    buffers: RefCell<Vec<Range<u64>>>,
}

impl CachedFile {
    /// # Errors
    /// Those of [`KeyFunction::name`].
    pub(super) fn new(
        source: FetchSource,
        cache: Rc<Client>,
        key_function: KeyFunction,
        report: Rc<Report>,
    ) -> Result<Self> {
        let url = source.cache_url();
        let (name, partition) = (key_function.name(&url)?, source.partition());
        let access = if partition.is_some() || name != url { Access::Private } else { Access::Public };
        let key: Rc<str> = key::join(partition.as_deref(), &name).into();
        let contents = ExpectedContents::new(Rc::clone(&cache), Rc::clone(&key), partition);
        let (is_open, version, lease, is_peer_stalled, writes_disabled) = Default::default();
        let (previous, buffers) = Default::default();
        Ok(CachedFile {
            source,
            cache,
            key_function,
            key,
            access,
            report,
            is_open,
            version,
            lease,
            is_peer_stalled,
            writes_disabled,
            overlap_bytes: Cell::new(OVERLAP_BYTES),
            contents,
            previous,
            buffers,
        })
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.version.borrow().clone()
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.version.borrow().as_ref().and_then(|version| version.identity.length)
    }

    /// Queries the cache once for the file.
    pub(super) async fn open(&self) -> Result<()> {
        let mut is_open = self.is_open.lock().await;
        if !*is_open {
            // If the digest is known, the version need not be checked. Access to a private file must be.
            match self.contents.locate_whole().await {
                Ok(Some(version)) => {
                    if self.access == Access::Private {
                        revalidate(&self.source, self.access).await?;
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
    pub(super) async fn look_up(&self) -> Result<()> {
        let cached = match self.cache.open(&self.key).await {
            Ok(Some(cached)) => cached,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.disable_writes(&error);
                return Ok(());
            }
        };
        let is_current = match self.is_current(&cached).await {
            // The first address refuses the file, so that its cached bytes are not used. A mirror may have it.
            Err(error) if self.source.has_mirrors() => {
                self.disable_writes(&error);
                return Ok(());
            }
            outcome => outcome?,
        };
        if is_current {
            if self.source.has_mirrors() {
                self.expect_cached(&cached).await;
            }
            *self.version.borrow_mut() = Some(Version::new(cached));
        } else if let Err(error) = self.cache.delete(&self.key, Some(version_of(&cached))).await {
            self.disable_writes(&error);
        }
        Ok(())
    }

    /// Lets mirrors be compared with the cached version. Without its first bytes, no mirror is used until others
    /// arrive.
    async fn expect_cached(&self, cached: &Identity) {
        let (first, buffer) = (0..COMPARED_BYTES, self.cache.read_buffer());
        let read = self.cache.read(&self.key, &version_of(cached), first, COMPARED_BYTES, buffer).bytes().await;
        let bytes = read.map(|(count, _, buffer)| Uint8Array::new(&buffer).subarray(0, count as u32).to_vec());
        self.source.expect_cached(cached, &bytes.unwrap_or_default());
    }

    async fn is_current(&self, cached: &Identity) -> Result<bool> {
        Ok(revalidate(&self.source, self.access).await?.is_none_or(|identity| cached.is_confirmed_by(&identity)))
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
    pub(super) async fn handle_missing_bytes(&self, version: &Version) -> Result<()> {
        self.contents.forget_whole(version);
        let same = if self.contents.has_version() { self.contents.compare(&self.source, version).await? } else { None };
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
    pub(super) fn next_buffer(&self, start: u64) -> Option<Range<u64>> {
        let buffers = self.buffers.borrow();
        buffers.get(buffers.partition_point(|buffer| buffer.start < start)).cloned()
    }

    pub(super) fn add_buffer(&self, range: Range<u64>) {
        let mut buffers = self.buffers.borrow_mut();
        let at = buffers.partition_point(|buffer| buffer.start < range.start);
        match buffers.get_mut(at).filter(|buffer| buffer.start == range.start) {
            Some(buffer) => *buffer = range,
            None => buffers.insert(at, range), // most come in their order
        }
    }

    pub(super) fn disable_writes(&self, error: &Error) {
        self.report.note(error);
        self.report.set_caching(false);
        self.writes_disabled.set(true);
    }

    /// Sends a request. Returns the response, and the version under which its bytes can be cached: a response may be of
    /// another version than earlier ones.
    pub(super) async fn fetch(&self, range: Range<u64>) -> Result<(RangeResponse<StreamBody>, Option<Version>)> {
        let answer = self.source.read(range).await?;
        let version = self.version_of(&answer);
        Ok((answer, version))
    }

    /// The version under which the bytes of a response can be cached.
    pub(super) fn version_of<B>(&self, answer: &RangeResponse<B>) -> Option<Version> {
        match self.version() {
            Some(version) if version.identity.is_confirmed_by(&answer.identity) => Some(version),
            Some(version) if answer.identity.change_since(&version.identity).is_none() => None,
            // The first write of the new version deletes the old one.
            _ => self.adopt(answer),
        }
    }

    /// Removes wrong bytes from the cache. All bytes of this file are deleted, and those of files of the previous
    /// revision that bytes were copied from. For bytes of another cached file, only the content records are removed:
    /// that file belongs to another model and may be correct.
    pub(super) fn reject(&self) {
        self.writes_disabled.set(true);
        self.contents.forget_unconfirmed();
        match self.version() {
            Some(version) if version.other_key.is_some() => self.contents.forget_whole(&version),
            Some(version) => self.delete(self.key.to_string(), version.name.to_string()),
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
    pub(super) async fn try_lease(&self) -> Result<Option<Rc<Lease>>, JsValue> {
        let own = || self.lease.borrow().upgrade().filter(|lease| lease.is_held());
        if let Some(lease) = own() {
            return Ok(Some(lease));
        }
        let lock = Lock::try_now(&self.lock_name()).await?;
        let lease = lock.map(|lock| self.hold(lock));
        Ok(lease.or_else(own)) // another connection of this page may have acquired it meanwhile
    }

    /// The name of the lock that the page has which downloads the file.
    pub(super) fn lock_name(&self) -> String {
        format!("weightstream load {}", self.key)
    }

    /// The lease of this page, which has the lock.
    pub(super) fn hold(&self, lock: Lock) -> Rc<Lease> {
        let lease = Lease::new(lock);
        *self.lease.borrow_mut() = Rc::downgrade(&lease);
        lease
    }
}
