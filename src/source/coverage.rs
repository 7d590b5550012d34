//! Which bytes of a file have been read.

use std::ops::Range;

/// Ranges of a file in order. Those that touch are joined, so that there are about as many as connections.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    ranges: Vec<Range<u64>>,
}

impl Coverage {
    pub(super) fn insert(&mut self, range: Range<u64>) {
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let end = self.ranges.partition_point(|known| known.start <= range.end);
        let joined = self
            .ranges
            .drain(first..end)
            .fold(range, |joined, known| joined.start.min(known.start)..joined.end.max(known.end));
        if !joined.is_empty() {
            self.ranges.insert(first, joined);
        }
    }

    /// Whether these are all bytes of a file of this length.
    pub(super) fn is_whole(&self, length: u64) -> bool {
        length == 0 || self.ranges.first().is_some_and(|first| first.start == 0 && first.end >= length)
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
