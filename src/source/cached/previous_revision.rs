//! The previous revision of a file: bytes that an earlier file of the same model has in the cache are not downloaded
//! again. Copied bytes are cached for the new file, so that the earlier one can be deleted.

use super::content::Location;
use crate::cache::client::{Client, version_of};
use crate::error::Result;
use crate::index::CopiedRange;
use futures::lock::Mutex;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// What a file has in common with earlier files.
#[derive(Debug, Default)]
pub(super) struct PreviousRevision {
    files: RefCell<Vec<PreviousFile>>,
    /// In the order of the file.
    ranges: RefCell<Vec<CopiedRange>>,
    /// Whether the cache was queried for the earlier files.
    is_located: Mutex<bool>,
}

#[derive(Debug)]
struct PreviousFile {
    /// The cache key.
    key: String,
    /// The cached version; `None` if no byte is cached.
    version: Option<String>,
    /// Whether bytes were copied.
    is_used: bool,
}

impl PreviousRevision {
    /// Sets the cache keys of the earlier files, and the ranges of the file that they have, too.
    pub(super) fn expect(&self, keys: impl Iterator<Item = String>, ranges: &[CopiedRange]) {
        self.files.replace(keys.map(|key| PreviousFile { key, version: None, is_used: false }).collect());
        self.ranges.replace(ranges.to_vec());
    }

    /// Queries the cache once for the earlier files, and removes the ranges of those that it does not have. This counts
    /// as a use of the files, so it is done only if bytes are missing: files that are not used are evicted first.
    ///
    /// # Errors
    /// Those of the cache.
    pub(super) async fn locate(&self, cache: &Rc<Client>) -> Result<()> {
        let mut is_located = self.is_located.lock().await;
        if *is_located {
            return Ok(());
        }
        let keys: Vec<_> = self.files.borrow().iter().map(|previous| previous.key.clone()).collect();
        for (index, key) in keys.iter().enumerate() {
            let version = cache.open(key).await?.map(|identity| version_of(&identity));
            if let Some(previous) = self.files.borrow_mut().get_mut(index) {
                previous.version = version;
            }
        }
        let files = self.files.borrow();
        let is_cached = |index: usize| files.get(index).is_some_and(|previous| previous.version.is_some());
        self.ranges.borrow_mut().retain(|copied| is_cached(copied.file));
        *is_located = true;
        Ok(())
    }

    /// Returns the location of the bytes from `position` if the cache may have them.
    pub(super) fn find(&self, position: u64) -> Option<Location> {
        let (ranges, files) = (self.ranges.borrow(), self.files.borrow());
        let CopiedRange { range, file, start_in_file } = ranges.get(self.index_at(position)?)?;
        let PreviousFile { key, version, .. } = files.get(*file)?;
        let start = start_in_file + (position - range.start);
        Some(Location { key: key.clone(), version: version.clone()?, range: start..start + (range.end - position) })
    }

    /// The end of the range to request from the server: the start of the next range that the cache may have, or the end
    /// of `missing`.
    pub(super) fn request_end(&self, missing: Range<u64>) -> u64 {
        let ranges = self.ranges.borrow();
        let later = ranges.iter().skip(ranges.partition_point(|copied| copied.range.start <= missing.start));
        let next = { later }.find(|copied| !copied.range.is_empty());
        next.map_or(missing.end, |copied| missing.end.min(copied.range.start))
    }

    /// Records that the bytes at `position` were copied.
    pub(super) fn mark_used(&self, position: u64) {
        let Some(index) = self.index_at(position) else { return };
        let file = self.ranges.borrow().get(index).map(|copied| copied.file);
        if let Some(previous) = self.files.borrow_mut().get_mut(file.unwrap_or(usize::MAX)) {
            previous.is_used = true;
        }
    }

    /// Removes `byte_length` bytes from `position`, which are not cached.
    pub(super) fn skip(&self, position: u64, byte_length: u64) {
        let Some(index) = self.index_at(position) else { return };
        if let Some(CopiedRange { range, start_in_file, .. }) = self.ranges.borrow_mut().get_mut(index) {
            let next = position.saturating_add(byte_length.max(1)).min(range.end);
            *start_in_file += next - range.start;
            range.start = next;
        }
    }

    /// Stops copying, because bytes were wrong. Returns the keys and versions of the files that bytes were copied from.
    pub(super) fn take_used(&self) -> Vec<(String, String)> {
        self.ranges.take();
        let files = self.files.take().into_iter();
        files
            .filter(|previous| previous.is_used)
            .filter_map(|previous| Some((previous.key, previous.version?)))
            .collect()
    }

    /// The index of the range that contains `position`.
    fn index_at(&self, position: u64) -> Option<usize> {
        let ranges = self.ranges.borrow();
        let index = ranges.partition_point(|copied| copied.range.start <= position).checked_sub(1)?;
        ranges.get(index).filter(|copied| position < copied.range.end).map(|_| index)
    }
}
