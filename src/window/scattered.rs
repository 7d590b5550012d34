//! Many small ranges that are far apart, such as the headers of the members of an archive, in few requests.

use super::{Stop, Window};
use std::ops::Range;

/// The maximum number of unwanted bytes that all requests for the ranges of a list may read together. They stay in
/// memory while the file is open.
const MAX_UNWANTED_BYTES: u64 = 16 << 20;

/// The largest gap that is read: a round trip takes longer than reading as many bytes.
const MAX_GAP_BYTES: u64 = 1 << 20;

impl Window<'_> {
    /// Stops unless all `ranges` are known. They must be in ascending order. Ranges with short gaps between them are
    /// requested together: the shortest gaps first, as far as the unwanted bytes stay below a limit.
    ///
    /// # Errors
    /// [`Stop::Need`] while bytes are missing. Ranges that reach beyond the end of the file are not errors.
    pub(crate) fn ensure_scattered(&self, ranges: &[Range<u64>]) -> Result<(), Stop> {
        let end_of_file = self.file_length().unwrap_or(u64::MAX);
        let cut = |range: &Range<u64>| range.start.min(end_of_file)..range.end.min(end_of_file);
        let is_known = |range: &Range<u64>| self.missing(&cut(range)).is_empty();
        let Some(first) = ranges.iter().position(|range| !is_known(range)) else { return Ok(()) };
        let max_gap = max_gap(ranges);
        let mut needed = ranges.get(first).map_or(0..0, cut);
        for range in ranges.iter().skip(first + 1) {
            if range.start.saturating_sub(needed.end) > max_gap || is_known(range) {
                break;
            }
            needed.end = needed.end.max(cut(range).end);
        }
        Err(Stop::Need(needed))
    }
}

/// The largest gap between ranges that is read. It depends on all of the ranges, and not on what is known of them.
fn max_gap(ranges: &[Range<u64>]) -> u64 {
    let pairs = ranges.iter().zip(ranges.iter().skip(1));
    let mut gaps: Vec<_> = pairs.map(|(before, after)| after.start.saturating_sub(before.end)).collect();
    gaps.sort_unstable();
    let mut unwanted = 0u64;
    let too_long = gaps.iter().position(|gap| {
        unwanted = unwanted.saturating_add(*gap);
        *gap > MAX_GAP_BYTES || unwanted > MAX_UNWANTED_BYTES
    });
    // Gaps of equal lengths are all read, or none of them.
    let shortest_unread = too_long.and_then(|at| gaps.get(at)).copied().unwrap_or(u64::MAX);
    gaps.iter().take_while(|gap| **gap < shortest_unread).last().copied().unwrap_or(0)
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    /// Fetches what is needed, and returns the requests.
    fn requests(length: u64, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut window = Window::new(Some(length));
        let mut requests = Vec::new();
        while let Err(Stop::Need(range)) = window.ensure_scattered(ranges) {
            window.insert(range.start, &vec![0; (range.end - range.start) as usize]);
            requests.push(range);
        }
        requests
    }

    #[test]
    fn thousands_of_small_members_take_one_request() {
        let ranges: Vec<_> = (0..5000).map(|at| at * 3000..at * 3000 + 512).collect();
        let all = 0..4999 * 3000 + 512;
        assert_eq!(requests(20 << 20, &ranges), vec![all]);
    }

    #[test]
    fn large_members_are_not_read() {
        let ranges = [0..100, 200..300, 9_000_000..9_000_100];
        assert_eq!(requests(10_000_000, &ranges), [0..300, 9_000_000..9_000_100]);
    }

    #[test]
    fn unwanted_bytes_have_a_limit() {
        let mut ranges: Vec<_> = (0..100).map(|at| at << 20..(at << 20) + 100).collect();
        let read = requests(100 << 20, &ranges);
        assert_eq!(read.len(), 100, "no gap is shorter than the others");
        ranges.extend((0..100).map(|at| (100 << 20) + at * 1000..(100 << 20) + at * 1000 + 100));
        assert_eq!(requests(200 << 20, &ranges).len(), 101, "the short gaps are read");
    }

    #[test]
    fn ranges_beyond_the_end_of_the_file_are_cut() {
        let (beyond, cut) = (95..200, 95..100);
        assert_eq!(requests(100, &[beyond]), vec![cut]);
    }
}
