//! Which bytes of a file its checksums cover.

use super::Matched;
use crate::algorithm::Algorithm;
use crate::sorting::sort;
use std::ops::Range;

/// The ranges of a file that checksums have verified. A file may have as many as tensors, so they are searched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coverage {
    /// By start: the largest end of the ranges that start there or before, and the algorithm of that range.
    ends: Vec<(u64, u64, Algorithm)>,
    /// The algorithms of the checksums, each of them once.
    algorithms: Vec<Algorithm>,
}

impl Coverage {
    /// The coverage of checksums in a file of `stored_length` bytes. That of the whole file covers everything: a file
    /// that is compressed as a whole has tensors beyond its end.
    pub(crate) fn of(matched: Vec<Matched>, stored_length: Option<u64>) -> Self {
        let ranges = matched.into_iter().map(|(over, digest)| {
            let is_whole = over.start == 0 && stored_length.is_some_and(|length| over.end >= length);
            (over.start, if is_whole { u64::MAX } else { over.end }, digest.algorithm())
        });
        Coverage::new(ranges.collect())
    }

    /// The coverage of a whole file.
    pub(crate) fn whole(algorithm: Algorithm) -> Self {
        Coverage::new(vec![(0, u64::MAX, algorithm)])
    }

    fn new(mut ends: Vec<(u64, u64, Algorithm)>) -> Self {
        let mut algorithms = Vec::new();
        for (_, _, algorithm) in &ends {
            if !algorithms.contains(algorithm) {
                algorithms.push(*algorithm);
            }
        }
        sort(&mut ends, |(start, _, _)| (*start, 0, 0)); // stable: of equal ranges, the last checksum counts
        let mut largest: Option<(u64, Algorithm)> = None;
        for (_, end, algorithm) in &mut ends {
            match largest {
                Some((before, of_before)) if before > *end => (*end, *algorithm) = (before, of_before),
                _ => largest = Some((*end, *algorithm)),
            }
        }
        Coverage { ends, algorithms }
    }

    /// The algorithms of the checksums.
    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// The algorithm of a checksum over all bytes of `range`.
    pub(crate) fn of_range(&self, range: &Range<u64>) -> Option<Algorithm> {
        let after = self.ends.partition_point(|(start, _, _)| *start <= range.start);
        let (_, end, algorithm) = self.ends.get(after.checked_sub(1)?)?;
        (*end >= range.end).then_some(*algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    #[test]
    fn a_range_is_covered_by_one_checksum_over_all_of_it() {
        let matched = vec![(10..20, Digest::Crc32(0)), (12..14, Digest::Xxh3(0)), (20..30, Digest::Crc32c(0))];
        let coverage = Coverage::of(matched, Some(40));
        assert_eq!(coverage.of_range(&(13..20)), Some(Algorithm::Crc32));
        assert_eq!(coverage.of_range(&(20..21)), Some(Algorithm::Crc32c));
        for range in [9..11, 15..25, 30..31] {
            assert_eq!(coverage.of_range(&range), None, "{range:?}");
        }
        assert_eq!(coverage.algorithms().len(), 3);
        assert_eq!(Coverage::default().of_range(&(0..1)), None);
    }

    #[test]
    fn a_checksum_of_the_whole_file_covers_what_it_decodes_to() {
        let coverage = Coverage::of(vec![(5..9, Digest::Xxh3(0)), (0..40, Digest::Crc32(0))], Some(40));
        assert_eq!(coverage.of_range(&(6..100)), Some(Algorithm::Crc32));
        assert_eq!(Coverage::whole(Algorithm::Sha256).of_range(&(7..8)), Some(Algorithm::Sha256));
    }
}
