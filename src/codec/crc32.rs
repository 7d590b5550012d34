//! CRC-32/IEEE of a file whose parts are read in any order, some more than once.

use std::collections::BTreeMap;
use std::ops::Range;

/// The CRC-32/IEEE of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The CRCs of the parts of a file that were read so far; neighbours are combined into one.
#[derive(Debug, Default)]
pub struct Crc32Parts {
    /// By where they begin: where they end, and their CRC. Disjoint and never adjacent.
    parts: BTreeMap<u64, (u64, u32)>,
}

impl Crc32Parts {
    /// Adds a part. One that overlaps what is known already adds nothing.
    pub fn add(&mut self, range: Range<u64>, crc32: u32) {
        let before = self.parts.range(..=range.start).next_back().map(|(&start, &part)| (start, part));
        let after = self.parts.range(range.start..).next().map(|(&start, &part)| (start, part));
        let overlaps = before.is_some_and(|(_, (end, _))| end > range.start)
            || after.is_some_and(|(start, _)| start < range.end);
        if range.is_empty() || overlaps {
            return;
        }
        let (mut whole, mut crc) = (range.clone(), crc32);
        if let Some((start, (end, crc_before))) = before
            && end == range.start
        {
            crc = combine(crc_before, crc, range.end - range.start);
            whole.start = start;
        }
        if let Some((start, (end, crc_after))) = after
            && start == range.end
        {
            crc = combine(crc, crc_after, end - start);
            whole.end = end;
            self.parts.remove(&start);
        }
        self.parts.insert(whole.start, (whole.end, crc));
    }

    /// The first stretch of `range` whose CRC is not known; empty where all of it is.
    pub fn missing(&self, range: &Range<u64>) -> Range<u64> {
        let before = self.parts.range(..=range.start).next_back();
        let start = before.map_or(range.start, |(_, &(end, _))| end.max(range.start)).min(range.end);
        let next = self.parts.range(start..).next().map_or(range.end, |(&next, _)| next);
        start..next.min(range.end)
    }

    /// The CRC of exactly `range`, if all of it was read as one stretch.
    pub fn over(&self, range: &Range<u64>) -> Option<u32> {
        if range.is_empty() {
            return Some(0);
        }
        let (end, crc) = self.parts.get(&range.start)?;
        (*end == range.end).then_some(*crc)
    }
}

/// The CRC of two neighbours; `second_length` is the bytes of the second.
pub fn combine(first: u32, second: u32, second_length: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(first);
    hasher.combine(&crc32fast::Hasher::new_with_initial_len(second, second_length));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_in_any_order_combine_to_the_crc_of_the_whole(
            data in proptest::collection::vec(any::<u8>(), 1..500),
            cuts in proptest::collection::vec(0usize..500, 0..12),
            order in any::<u64>(),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % data.len()).chain([0, data.len()]).collect();
            cuts.sort_unstable();
            let mut pieces: Vec<_> = cuts.windows(2).map(|w| w[0]..w[1]).collect();
            pieces.sort_by_key(|piece| (piece.start as u64).wrapping_mul(order | 1));
            let mut parts = Crc32Parts::default();
            for piece in pieces.iter().chain(&pieces) {
                parts.add(piece.start as u64..piece.end as u64, checksum(&data[piece.clone()]));
            }
            let whole = 0..data.len() as u64;
            prop_assert_eq!(parts.over(&whole), Some(checksum(&data)));
            prop_assert!(parts.missing(&whole).is_empty());
        }
    }

    #[test]
    fn says_what_is_missing() {
        let mut parts = Crc32Parts::default();
        parts.add(10..20, 1);
        parts.add(30..40, 2);
        assert_eq!(parts.missing(&(0..40)), 0..10);
        assert_eq!(parts.missing(&(10..40)), 20..30);
        assert_eq!(parts.over(&(10..40)), None);
    }
}
