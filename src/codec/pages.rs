//! Page digests of a byte range of a file: parts of the range can be verified independently.

use crate::codec::digest::{self, Hasher};
use crate::digest::Digest;
use crate::error::{Result, malformed};
use std::ops::Range;
use std::sync::Arc;

/// The BLAKE3 digests of the pages of a byte range. The last page may be shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    over: Range<u64>,
    page_bytes: u64,
    digests: Vec<[u8; 32]>,
}

impl Pages {
    /// Creates the digests of the pages of `over`, which have `page_bytes` bytes each.
    ///
    /// # Errors
    /// `FORMAT` if the number of digests differs from the number of pages.
    pub fn new(over: Range<u64>, page_bytes: u64, digests: Vec<[u8; 32]>) -> Result<Self> {
        let length = over.end - over.start;
        if page_bytes == 0 || length.div_ceil(page_bytes) != digests.len() as u64 {
            return Err(malformed(format!(
                "{} page digests do not match {length} bytes in pages of {page_bytes}",
                digests.len()
            )));
        }
        Ok(Pages { over, page_bytes, digests })
    }

    /// Widens a range of the file to whole pages. Returns ranges outside the covered range unchanged.
    pub fn around(&self, range: &Range<u64>) -> Range<u64> {
        if range.is_empty() || range.start < self.over.start || self.over.end < range.end {
            return range.clone();
        }
        self.page_at(range.start).start..self.page_at(range.end - 1).end
    }

    /// Returns the page that contains a byte of the covered range.
    fn page_at(&self, position: u64) -> Range<u64> {
        let start = position - (position - self.over.start) % self.page_bytes;
        start..start.saturating_add(self.page_bytes).min(self.over.end)
    }

    fn digest(&self, page: &Range<u64>) -> Option<Digest> {
        let number = (page.start - self.over.start) / self.page_bytes;
        self.digests.get(usize::try_from(number).ok()?).copied().map(Digest::Blake3)
    }
}

/// Verifies pages incrementally, in order.
#[derive(Debug)]
pub struct PageChecker {
    pages: Arc<Pages>,
    /// The hasher of the current page.
    hasher: Hasher,
    position: u64,
    /// The last contiguous range of verified pages.
    checked: Range<u64>,
}

impl PageChecker {
    /// Creates a checker.
    pub fn new(pages: Arc<Pages>) -> Self {
        let start = pages.over.start;
        PageChecker { pages, hasher: Hasher::new(Digest::Blake3([0; 32])), position: start, checked: start..start }
    }

    /// The digests of the pages.
    pub fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    /// Adds bytes that begin at `start` in the file, after all previous bytes. If they do not follow directly, the rest
    /// of their first page is skipped.
    ///
    /// # Errors
    /// `CHECKSUM` if the digest of a page does not match.
    pub fn update(&mut self, start: u64, bytes: &[u8]) -> Result<()> {
        let over = self.pages.over.clone();
        let end = start + bytes.len() as u64;
        let mut at = start.max(over.start);
        while at < end.min(over.end) {
            let page = self.pages.page_at(at);
            let to = page.end.min(end);
            if at == page.start {
                self.hasher = Hasher::new(Digest::Blake3([0; 32]));
            }
            if at == page.start || at == self.position {
                self.hasher.update(bytes.get((at - start) as usize..(to - start) as usize).unwrap_or_default());
                self.position = to;
                if to == page.end {
                    self.finish(page)?;
                }
            }
            at = to;
        }
        Ok(())
    }

    /// Whether the contiguous verified pages contain all of `range`.
    pub fn has_checked(&self, range: &Range<u64>) -> bool {
        self.checked.start <= range.start && range.end <= self.checked.end
    }

    fn finish(&mut self, page: Range<u64>) -> Result<()> {
        let hasher = std::mem::replace(&mut self.hasher, Hasher::new(Digest::Blake3([0; 32])));
        if let Some(stated) = self.pages.digest(&page) {
            digest::compare(hasher.finish(), stated).map_err(|mut error| {
                error.what = format!("a page of its file is damaged: {}", error.what);
                error.at(page.clone())
            })?;
        }
        let start = if self.checked.end == page.start { self.checked.start } else { page.start };
        self.checked = start..page.end;
        Ok(())
    }
}

#[cfg(all(test, native))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    const OVER: Range<u64> = 100..1130;

    fn file() -> Vec<u8> {
        (0..1200u32).map(|i| (i * i / 7) as u8).collect()
    }

    fn pages(page_bytes: u64) -> Arc<Pages> {
        let file = file();
        let covered = &file[OVER.start as usize..OVER.end as usize];
        let digests = covered.chunks(page_bytes as usize).map(|page| blake3::hash(page).into()).collect();
        Arc::new(Pages::new(OVER, page_bytes, digests).unwrap())
    }

    #[test]
    fn bytes_are_widened_to_whole_pages() {
        let pages = pages(256);
        assert_eq!(pages.around(&(100..101)), 100..356);
        assert_eq!(pages.around(&(356..612)), 356..612);
        assert_eq!(pages.around(&(355..613)), 100..868);
        assert_eq!(pages.around(&(1129..1130)), 1124..1130);
        assert_eq!(pages.around(&(400..400)), 400..400);
        assert_eq!(pages.around(&(1100..1131)), 1100..1131);
    }

    #[test]
    fn rejects_a_wrong_number_of_digests() {
        assert!(Pages::new(0..10, 4, vec![[0; 32]; 2]).is_err());
        assert!(Pages::new(0..10, 0, vec![[0; 32]; 2]).is_err());
        assert!(Pages::new(0..0, 4, Vec::new()).is_ok());
        assert!(Pages::new(0..10, u64::MAX, vec![[0; 32]]).is_ok());
    }

    #[test]
    fn rejects_only_the_damaged_page() {
        let mut file = file();
        file[700] ^= 1;
        let check = |range: Range<usize>| PageChecker::new(pages(256)).update(range.start as u64, &file[range]);
        assert_eq!(check(100..612), Ok(()));
        assert_eq!(check(868..1200), Ok(()));
        let error = check(612..868).unwrap_err();
        assert_eq!((error.kind, error.context.range), (ErrorKind::Checksum, Some(612..868)));
        assert_eq!(check(613..868), Ok(())); // an incomplete page is not verified
    }

    proptest! {
        #[test]
        fn the_verified_pages_do_not_depend_on_the_chunks(
            page_bytes in 1u64..600, start in 0usize..1200, cuts in proptest::collection::vec(0usize..300, 0..12),
        ) {
            let (pages, file) = (pages(page_bytes), file());
            let mut checker = PageChecker::new(Arc::clone(&pages));
            let mut at = start;
            for cut in cuts {
                let end = (at + cut).min(file.len());
                checker.update(at as u64, &file[at..end]).unwrap();
                at = end;
            }
            for first in start.max(100)..at.min(1130) {
                let page = pages.page_at(first as u64);
                let is_complete = start as u64 <= page.start && page.end <= at as u64;
                prop_assert_eq!(checker.has_checked(&page), is_complete);
            }
        }
    }
}
