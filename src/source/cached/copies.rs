//! Parts of the previous revision: bytes that an earlier file of the same model has in the cache are not downloaded
//! again. Copied bytes are cached for the new file, so that the earlier one can be deleted.

use super::CachedFile;
use super::content::Location;
use crate::cache::client::version_of;
use crate::error::Result;
use std::cell::RefCell;
use std::ops::Range;

/// What a file has in common with earlier files.
#[derive(Debug, Default)]
pub(super) struct PreviousRevision {
    files: RefCell<Vec<PreviousFile>>,
    /// In the order of the file.
    ranges: RefCell<Vec<CachedRange>>,
}

#[derive(Debug)]
struct PreviousFile {
    /// The cache key.
    key: String,
    /// The cached version; `None` if no byte is cached.
    version: Option<String>,
}

#[derive(Debug)]
struct CachedRange {
    range: Range<u64>,
    /// The index of the earlier file, and the offset in it.
    file: usize,
    start_in_file: u64,
}

impl PreviousRevision {
    /// States that the file of a cache key has the bytes of `range`. Ranges are stated in their order.
    pub(super) fn expect(&self, range: Range<u64>, key: &str, start_in_file: u64) {
        let mut files = self.files.borrow_mut();
        let known = files.iter().position(|file| file.key == key);
        let file = known.unwrap_or_else(|| {
            files.push(PreviousFile { key: key.to_owned(), version: None });
            files.len() - 1
        });
        self.ranges.borrow_mut().push(CachedRange { range, file, start_in_file });
    }

    /// Queries the cache for the earlier files, and removes the ranges of those that it does not have.
    ///
    /// # Errors
    /// Those of the cache.
    pub(super) async fn look_up(&self, file: &CachedFile) -> Result<()> {
        let mut files = self.files.take();
        for previous in &mut files {
            previous.version = file.cache.open(&previous.key).await?.map(|identity| version_of(&identity));
        }
        let is_cached = |file: usize| files.get(file).is_some_and(|file| file.version.is_some());
        self.ranges.borrow_mut().retain(|copied| is_cached(copied.file));
        self.files.replace(files);
        Ok(())
    }

    /// Returns the location of the bytes from `position` if the cache may have them.
    pub(super) fn find(&self, position: u64) -> Option<Location> {
        let (ranges, files) = (self.ranges.borrow(), self.files.borrow());
        let CachedRange { range, file, start_in_file } = ranges.get(self.index_at(position)?)?;
        let PreviousFile { key, version } = files.get(*file)?;
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

    /// Removes `byte_length` bytes from `position`, which are not cached.
    pub(super) fn skip(&self, position: u64, byte_length: u64) {
        let Some(index) = self.index_at(position) else { return };
        if let Some(CachedRange { range, start_in_file, .. }) = self.ranges.borrow_mut().get_mut(index) {
            let next = position.saturating_add(byte_length.max(1)).min(range.end);
            *start_in_file += next - range.start;
            range.start = next;
        }
    }

    /// Removes all ranges, because bytes were wrong.
    pub(super) fn clear(&self) {
        self.ranges.take();
    }

    /// The index of the range that contains `position`.
    fn index_at(&self, position: u64) -> Option<usize> {
        let ranges = self.ranges.borrow();
        let index = ranges.partition_point(|copied| copied.range.start <= position).checked_sub(1)?;
        ranges.get(index).filter(|copied| position < copied.range.end).map(|_| index)
    }
}
