//! Lookup by digest: bytes that are cached under another URL are not downloaded again.

use super::comparison::Comparison;
use super::version::Version;
use crate::cache::backend::ContentLocation;
use crate::cache::client::{Client, identity_of};
use crate::cache::key;
use crate::digest::Digest;
use crate::error::Result;
use crate::identity::Identity;
use crate::source::RangeResponse;
use crate::source::fetch::FetchSource;
use sha2::{Digest as _, Sha256};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

/// The digests of a file that the manifest, the index or the caller provides.
#[derive(Debug)]
pub(super) struct ExpectedContents {
    cache: Rc<Client>,
    /// The cache key of the file.
    key: Rc<str>,
    /// A hash of the credentials of its requests.
    partition: Option<String>,
    /// Digest of the whole file.
    whole: Cell<Option<Digest>>,
    comparison: Comparison,
    /// Ranges with a digest, sorted by their starts. A list, because the code of a `BTreeMap` takes 5 KB; most digests
    /// are stated in the order of the file.
    expected: RefCell<Vec<Expected>>,
    has_new: Cell<bool>,
    /// The version of the file that the first bytes and the index belong to.
    version: RefCell<Option<Version>>,
}

/// Whether bytes of the file are still cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    Enabled,
    Disabled,
}

#[derive(Debug, Clone)]
struct Expected {
    start: u64,
    end: u64,
    /// The IDs of its digests. Any of them identifies the bytes.
    contents: Vec<String>,
    location: Option<Location>,
    /// Whether bytes were read from `location`.
    is_used: bool,
    /// Whether the bytes had the expected digest.
    is_confirmed: bool,
}

/// The location of the expected bytes in another cached file.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) key: String,
    pub(super) version: String,
    /// The range in that file, from the requested position to the end of the content.
    pub(super) range: Range<u64>,
}

impl ExpectedContents {
    /// None are known of the file with this cache key.
    pub(super) fn new(cache: Rc<Client>, key: Rc<str>, partition: Option<String>) -> Self {
        let (whole, comparison, expected, has_new, version) = Default::default();
        ExpectedContents { cache, key, partition, whole, comparison, expected, has_new, version }
    }

    pub(super) fn expect_whole(&self, digest: &Digest) {
        self.whole.set(Some(*digest));
    }

    pub(super) fn expect(&self, range: Range<u64>, digest: &Digest) {
        let Range { start, end } = range;
        let mut all = self.expected.borrow_mut();
        let place = all.partition_point(|expected| expected.start < start);
        if all.get(place).is_none_or(|expected| expected.start != start) {
            let contents = Vec::new();
            all.insert(place, Expected { start, end, contents, location: None, is_used: false, is_confirmed: false });
        }
        if let Some(expected) = all.get_mut(place).filter(|expected| expected.end == end) {
            expected.contents.push(self.content_id(digest));
            self.has_new.set(true);
        }
    }

    /// What is expected at the last start up to `position`.
    fn up_to(all: &mut [Expected], position: u64) -> Option<&mut Expected> {
        let place = all.partition_point(|expected| expected.start <= position);
        all.get_mut(place.checked_sub(1)?)
    }

    /// Whether the version of the first bytes is known.
    pub(super) fn has_version(&self) -> bool {
        self.version.borrow().is_some()
    }

    /// Sets the version, unless it is already set.
    pub(super) fn set_version(&self, version: Option<&Version>) {
        let mut first = self.version.borrow_mut();
        if first.is_none() {
            *first = version.cloned();
        }
    }

    /// Returns the version to read if the whole file is cached, under any URL.
    pub(super) async fn locate_whole(&self) -> Result<Option<Version>> {
        let Some(digest) = self.whole.get() else { return Ok(None) };
        let found = self.cache.locate(&[self.content_id(&digest)]).await?.pop().flatten();
        let Some(ContentLocation { key, version, start: 0, byte_length: Some(length) }) = found else {
            return Ok(None);
        };
        if *key == *self.key {
            return Ok(Some(Version::new(identity_of(&version))));
        }
        // ETag and Last-Modified of another URL cannot be compared with those of this server.
        let identity = Identity { length: Some(length), ..Identity::default() };
        Ok(Some(Version { identity, name: version.into(), other_key: Some(key.into()) }))
    }

    /// Removes the record of the whole file, because some of its bytes are missing.
    pub(super) fn forget_whole(&self, version: &Version) {
        if let Some(digest) = self.whole.get() {
            let recorded = self.cache.note(&self.content_id(&digest), version.key(&self.key), &version.name, 0..0);
            spawn_local(async move { drop(recorded.done().await) }); // if it fails, nothing can be done
        }
    }

    /// Whether the bytes with each of these digests are cached, in any file.
    pub(super) async fn have(&self, digests: &[Digest]) -> Result<Vec<bool>> {
        let contents: Vec<_> = digests.iter().map(|digest| self.content_id(digest)).collect();
        let is_complete =
            |found: &Option<ContentLocation>| found.as_ref().is_some_and(|found| found.byte_length.is_some());
        Ok(self.cache.locate(&contents).await?.iter().map(is_complete).collect())
    }

    /// Where the bytes with this digest are cached, in any file.
    pub(super) async fn locate_one(&self, digest: &Digest, byte_length: u64) -> Result<Option<Location>> {
        let found = self.cache.locate(&[self.content_id(digest)]).await?.pop().flatten();
        Ok(found.map(|ContentLocation { key, version, start, .. }| Location {
            key,
            version,
            range: start..start.saturating_add(byte_length),
        }))
    }

    /// Removes the record of a digest, because the bytes have another one.
    pub(super) fn forget(&self, digest: &Digest) {
        let (cache, content) = (Rc::clone(&self.cache), self.content_id(digest));
        spawn_local(async move {
            let found = cache.locate(std::slice::from_ref(&content)).await.ok().and_then(|mut found| found.pop()?);
            if let Some(ContentLocation { key, version, .. }) = found {
                drop(cache.note(&content, &key, &version, 0..0).done().await); // if it fails, nothing can be done
            }
        });
    }

    /// Compares the server's file with the digest of the whole file. Returns the response if they are equal.
    pub(super) async fn compare(&self, source: &FetchSource, cached: &Version) -> Result<Option<RangeResponse<()>>> {
        let (Some(digest), Some(byte_length)) = (self.whole.get(), cached.identity.length) else { return Ok(None) };
        self.comparison.outcome(source, byte_length, digest).await.map(Some)
    }

    /// Looks up the locations of newly expected contents.
    pub(super) async fn locate(&self) -> Result<()> {
        if !self.has_new.replace(false) {
            return Ok(());
        }
        let (starts, contents): (Vec<_>, Vec<_>) = {
            let expected = self.expected.borrow();
            let with_start = |expected: &Expected| {
                let start = expected.start;
                expected.contents.clone().into_iter().map(move |content| (start, content))
            };
            expected.iter().flat_map(with_start).unzip()
        };
        let locations = self.cache.locate(&contents).await?;
        let mut expected = self.expected.borrow_mut();
        for (start, located) in starts.into_iter().zip(locations) {
            let (Some(expected), Some(located)) = (Self::up_to(&mut expected, start), located) else { continue };
            let ContentLocation { key, version, start: at, .. } = located;
            let range = at..at.saturating_add(expected.end - expected.start);
            expected.location = (*key != *self.key).then_some(Location { key, version, range });
        }
        Ok(())
    }

    /// Returns the location of the bytes from `position` if they are cached under another URL.
    pub(super) fn find(&self, position: u64) -> Option<Location> {
        let mut expected = self.expected.borrow_mut();
        let Expected { start, end, location, .. } = Self::up_to(&mut expected, position)?;
        let location = location.as_ref().filter(|_| position < *end)?;
        Some(Location { range: location.range.start + (position - *start)..location.range.end, ..location.clone() })
    }

    /// The end of the range to request from the server: the start of the next content that is cached under another URL,
    /// or the end of `missing`.
    pub(super) fn request_end(&self, missing: Range<u64>) -> u64 {
        let expected = self.expected.borrow();
        let first = expected.partition_point(|expected| expected.start <= missing.start);
        let next = expected.iter().skip(first).find(|expected| expected.location.is_some());
        next.map_or(missing.end, |next| missing.end.min(next.start))
    }

    /// Records that bytes were read from the location that [`find`](Self::find) returned.
    pub(super) fn mark_used(&self, position: u64) {
        if let Some(expected) = Self::up_to(&mut self.expected.borrow_mut(), position) {
            expected.is_used = true;
        }
    }

    /// Removes the records of contents that were read from other files and had no matching digest.
    pub(super) fn forget_unconfirmed(&self) {
        let expected = self.expected.borrow();
        for expected in expected.iter().filter(|expected| expected.is_used && !expected.is_confirmed) {
            let Some(Location { key, version, .. }) = &expected.location else { continue };
            for content in &expected.contents {
                let recorded = self.cache.note(content, key, version, 0..0);
                spawn_local(async move { drop(recorded.done().await) }); // if it fails, nothing can be done
            }
        }
    }

    /// Removes a location whose bytes are missing.
    pub(super) fn remove_location(&self, position: u64) {
        if let Some(expected) = Self::up_to(&mut self.expected.borrow_mut(), position) {
            expected.location = None;
        }
    }

    /// Records the content ID of a verified range, if the file is still cached. The worker processes this after all
    /// earlier writes.
    pub(super) fn confirm(&self, range: Range<u64>, digest: &Digest, writes: Writes) {
        if let Some(expected) = Self::up_to(&mut self.expected.borrow_mut(), range.start)
            && (expected.start, expected.end) == (range.start, range.end)
        {
            expected.is_confirmed = true;
        }
        let version = self.version.borrow().clone();
        let (Some(version), Writes::Enabled) = (version, writes) else { return };
        if self.find(range.start).is_none() {
            let recorded = self.cache.note(&self.content_id(digest), version.key(&self.key), &version.name, range);
            spawn_local(async move { drop(recorded.done().await) }); // without it, the bytes are downloaded again
        }
    }

    /// The ID of a digest and its algorithm. It includes the hash of the credentials.
    fn content_id(&self, digest: &Digest) -> String {
        let text = key::join(self.partition.as_deref(), &format!("{} {digest}", digest.algorithm()));
        Digest::Sha256(Sha256::digest(text).into()).to_string()
    }
}
