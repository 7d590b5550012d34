//! Bytes that are known by their digest: kept of another URL, they are not fetched again.

use super::CachedFile;
use crate::error::Result;
use crate::index::Digest;
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

/// The contents that the index tells of. Only those that are worth a request: around them the file has bytes that are
/// in no other.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// By where they begin.
    expected: RefCell<BTreeMap<u64, Expected>>,
    has_new: Cell<bool>,
    /// The version of the file that the index is of.
    version: RefCell<Option<Rc<str>>>,
}

#[derive(Debug, Clone)]
struct Expected {
    end: u64,
    content: String,
    place: Option<Place>,
}

/// Where the same bytes are kept.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) url: String,
    pub(super) version: String,
    /// The bytes from the position that was asked for to the end of the content, in the file at that URL.
    pub(super) range: Range<u64>,
}

impl Contents {
    pub(super) fn expect(&self, range: Range<u64>, digest: &Digest, version: Option<Rc<str>>) {
        *self.version.borrow_mut() = version;
        if is_worth_it(&range) {
            let expected = Expected { end: range.end, content: name_of(digest), place: None };
            self.expected.borrow_mut().insert(range.start, expected);
            self.has_new.set(true);
        }
    }

    /// Learns where the contents are that were not asked for yet.
    pub(super) async fn locate(&self, file: &CachedFile) -> Result<()> {
        if !self.has_new.replace(false) {
            return Ok(());
        }
        let (starts, contents): (Vec<_>, Vec<_>) = {
            let expected = self.expected.borrow();
            expected.iter().map(|(start, expected)| (*start, expected.content.clone())).unzip()
        };
        let places = file.cache.locate(&contents).await?;
        let mut expected = self.expected.borrow_mut();
        for (start, place) in starts.iter().zip(places) {
            let (Some(expected), Some((url, version, at))) = (expected.get_mut(start), place) else { continue };
            let range = at..at.saturating_add(expected.end - start);
            expected.place = (url != file.url()).then_some(Place { url, version, range });
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

    /// The end of what to ask the server for: where the next content begins that is kept elsewhere, `end` at the latest.
    pub(super) fn cut(&self, asked: Range<u64>) -> u64 {
        let expected = self.expected.borrow();
        let next = expected.range(asked.start + 1..).find(|(_, expected)| expected.place.is_some());
        next.map_or(asked.end, |(start, _)| asked.end.min(*start))
    }

    /// The URLs and versions of the files that contents are taken from.
    pub(super) fn places(&self) -> Vec<(String, String)> {
        let expected = self.expected.borrow();
        let mut places = Vec::new();
        for Place { url, version, .. } in expected.values().filter_map(|expected| expected.place.as_ref()) {
            if !places.iter().any(|(known, _)| known == url) {
                places.push((url.clone(), version.clone()));
            }
        }
        places
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
    let version = file.contents.version.borrow().clone();
    let (Some(version), false) = (version, file.is_quiet.get() || !is_worth_it(&range)) else { return };
    if file.contents.find(range.start).is_none() {
        let noted = file.cache.note(&name_of(digest), file.url(), &version, range);
        spawn_local(async move { drop(noted.answer().await) }); // without it, it is fetched again
    }
}

fn is_worth_it(range: &Range<u64>) -> bool {
    range.end.saturating_sub(range.start) >= DEFAULT_COALESCE_GAP_BYTES
}

/// A name of the digest and its algorithm.
fn name_of(digest: &Digest) -> String {
    let named = format!("{} {digest}", digest.algorithm());
    blake3::hash(named.as_bytes()).to_hex().to_string()
}
