//! Bytes that are known by their digest: kept of another URL, they are not fetched again.

use super::same::Comparison;
use super::{CachedFile, Version};
use crate::cache::client::{Located, identity_of};
use crate::cache::key;
use crate::error::Result;
use crate::identity::Identity;
use crate::index::Digest;
use crate::source::Answer;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

/// The contents that a manifest, the index or the caller tells of.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Of all of the file.
    whole: Cell<Option<Digest>>,
    comparison: Comparison,
    /// By where they begin.
    expected: RefCell<BTreeMap<u64, Expected>>,
    has_new: Cell<bool>,
    /// The version that the first bytes were of, and the index with them.
    version: RefCell<Option<Version>>,
}

#[derive(Debug, Clone)]
struct Expected {
    end: u64,
    /// The names of its digests, any of which will do.
    contents: Vec<String>,
    place: Option<Place>,
    /// Whether bytes were taken from there,
    is_used: bool,
    /// and had the digest that they should.
    is_confirmed: bool,
}

/// Where the same bytes are kept.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) key: String,
    pub(super) version: String,
    /// The bytes from the position that was asked for to the end of the content, in the file of that key.
    pub(super) range: Range<u64>,
}

impl Contents {
    pub(super) fn expect_whole(&self, digest: &Digest) {
        self.whole.set(Some(*digest));
    }

    pub(super) fn expect(&self, file: &CachedFile, range: Range<u64>, digest: &Digest) {
        let unknown =
            Expected { end: range.end, contents: Vec::new(), place: None, is_used: false, is_confirmed: false };
        let mut all = self.expected.borrow_mut();
        let expected = all.entry(range.start).or_insert(unknown);
        if expected.end == range.end {
            expected.contents.push(name_of(file, digest));
            self.has_new.set(true);
        }
    }

    /// Whether anything was read.
    pub(super) fn has_begun(&self) -> bool {
        self.version.borrow().is_some()
    }

    /// Notes which version is read, if none was before.
    pub(super) fn begin(&self, version: Option<&Version>) {
        let mut first = self.version.borrow_mut();
        if first.is_none() {
            *first = version.cloned();
        }
    }

    /// Learns whether all of the file is kept, under whatever URL.
    pub(super) async fn locate_whole(&self, file: &CachedFile) -> Result<Option<Version>> {
        let Some(digest) = self.whole.get() else { return Ok(None) };
        let found = file.cache.locate(&[name_of(file, &digest)]).await?.pop().flatten();
        let Some(Located { key, version, start: 0, byte_length: Some(length) }) = found else { return Ok(None) };
        if key == file.key {
            return Ok(Some(Version::new(identity_of(&version))));
        }
        // Nothing that the server says can be compared with it.
        let identity = Identity { length: Some(length), ..Identity::default() };
        Ok(Some(Version { identity, name: version.into(), elsewhere: Some(key.into()) }))
    }

    /// Takes what was noted of the whole file back: not all of it is there.
    pub(super) fn lose_whole(&self, file: &CachedFile, version: &Version) {
        if let Some(digest) = self.whole.get() {
            let noted = file.cache.note(&name_of(file, &digest), version.key(file), &version.name, 0..0);
            spawn_local(async move { drop(noted.answer().await) }); // if it fails, nothing can be done
        }
    }

    /// What the server answers, if its file is the one that is kept elsewhere as that version.
    pub(super) async fn compare(&self, file: &CachedFile, kept: &Version) -> Result<Option<Answer<()>>> {
        let (Some(digest), Some(byte_length)) = (self.whole.get(), kept.identity.length) else { return Ok(None) };
        self.comparison.outcome(&file.source, byte_length, digest).await.map(Some)
    }

    /// Learns where the contents are that were not asked for yet.
    pub(super) async fn locate(&self, file: &CachedFile) -> Result<()> {
        if !self.has_new.replace(false) {
            return Ok(());
        }
        let (starts, contents): (Vec<_>, Vec<_>) = {
            let expected = self.expected.borrow();
            let named = |(start, expected): (&u64, &Expected)| {
                let start = *start;
                expected.contents.clone().into_iter().map(move |content| (start, content))
            };
            expected.iter().flat_map(named).unzip()
        };
        let places = file.cache.locate(&contents).await?;
        let mut expected = self.expected.borrow_mut();
        for (start, located) in starts.iter().zip(places) {
            let (Some(expected), Some(located)) = (expected.get_mut(start), located) else { continue };
            let Located { key, version, start: at, .. } = located;
            let range = at..at.saturating_add(expected.end - start);
            expected.place = (key != file.key).then_some(Place { key, version, range });
        }
        Ok(())
    }

    /// Where the bytes at `position` and after it are kept under another URL.
    pub(super) fn find(&self, position: u64) -> Option<Place> {
        let expected = self.expected.borrow();
        let (start, Expected { end, place, .. }) = expected.range(..=position).next_back()?;
        let place = place.as_ref().filter(|_| position < *end)?;
        Some(Place { range: place.range.start + (position - start)..place.range.end, ..place.clone() })
    }

    /// The end of what to ask the server for: where the next content begins that is kept elsewhere, `end` at the
    /// latest.
    pub(super) fn cut(&self, asked: Range<u64>) -> u64 {
        let expected = self.expected.borrow();
        let next = expected.range(asked.start + 1..).find(|(_, expected)| expected.place.is_some());
        next.map_or(asked.end, |(start, _)| asked.end.min(*start))
    }

    /// Notes that bytes were taken from where [`find`](Self::find) found them.
    pub(super) fn note_use(&self, position: u64) {
        if let Some((_, expected)) = self.expected.borrow_mut().range_mut(..=position).next_back() {
            expected.is_used = true;
        }
    }

    /// Takes back what was noted of contents that came from other files and were not found right.
    pub(super) fn take_back(&self, file: &CachedFile) {
        let expected = self.expected.borrow();
        for expected in expected.values().filter(|expected| expected.is_used && !expected.is_confirmed) {
            let Some(Place { key, version, .. }) = &expected.place else { continue };
            for content in &expected.contents {
                let noted = file.cache.note(content, key, version, 0..0);
                spawn_local(async move { drop(noted.answer().await) }); // if it fails, nothing can be done
            }
        }
    }

    /// Does not look there again: what was there is gone.
    pub(super) fn forget(&self, position: u64) {
        if let Some((_, expected)) = self.expected.borrow_mut().range_mut(..=position).next_back() {
            expected.place = None;
        }
    }
}

/// Notes, behind everything that is to be kept before it, that bytes have a content.
pub(super) fn confirm(file: &Rc<CachedFile>, range: Range<u64>, digest: &Digest) {
    if let Some(expected) = file.contents.expected.borrow_mut().get_mut(&range.start)
        && expected.end == range.end
    {
        expected.is_confirmed = true;
    }
    let version = file.contents.version.borrow().clone();
    let (Some(version), false) = (version, file.is_quiet.get()) else { return };
    if file.contents.find(range.start).is_none() {
        let noted = file.cache.note(&name_of(file, digest), version.key(file), &version.name, range);
        spawn_local(async move { drop(noted.answer().await) }); // without it, it is fetched again
    }
}

/// A name of the digest and its algorithm, for those who have the same credentials.
fn name_of(file: &CachedFile, digest: &Digest) -> String {
    let named = key::join(file.partition.as_deref(), &format!("{} {digest}", digest.algorithm()));
    blake3::hash(named.as_bytes()).to_hex().to_string()
}
