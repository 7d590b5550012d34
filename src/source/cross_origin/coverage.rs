//! Which bytes of a file have been read.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of a file. Those that touch are joined, so that their number stays that of the connections.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// By start, the ends of disjoint ranges.
    ends: BTreeMap<u64, u64>,
}

impl Coverage {
    pub(super) fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        while let Some((&before, &its_end)) =
            self.ends.range(..=end).next_back().filter(|(_, its_end)| **its_end >= start)
        {
            self.ends.remove(&before);
            (start, end) = (start.min(before), end.max(its_end));
        }
        if start < end {
            self.ends.insert(start, end);
        }
    }

    /// Whether these are all bytes of a file of this length.
    pub(super) fn is_whole(&self, length: u64) -> bool {
        length == 0 || self.ends.get(&0).is_some_and(|end| *end >= length)
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_file_is_whole_once_each_byte_was_read(ranges in prop::collection::vec((0u64..40, 0u64..20), 0..20)) {
            let (mut coverage, mut read) = (Coverage::default(), [false; 60]);
            for (start, length) in ranges {
                coverage.insert(start..start + length);
                read[start as usize..(start + length) as usize].fill(true);
                let whole = read.iter().take_while(|is_read| **is_read).count() as u64;
                prop_assert!(coverage.is_whole(whole));
                prop_assert!(!coverage.is_whole(whole + 1));
            }
        }
    }
}
