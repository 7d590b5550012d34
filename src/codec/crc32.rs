//! CRC-32/IEEE of a file whose parts are read in any order, possibly more than once.

use std::collections::BTreeMap;
use std::ops::Range;

/// Whether the target has vector but no CRC instructions.
const HAS_ONLY_VECTORS: bool = cfg!(all(web, target_feature = "simd128"));

/// Returns the CRC-32/IEEE of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    append(0, bytes)
}

/// Updates the CRC-32/IEEE `crc` with `bytes`.
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    if HAS_ONLY_VECTORS { weightstream_kernels::crc::crc32(crc, bytes) } else { append_by_table(crc, bytes) }
}

/// Updates the CRC-32C `crc` with `bytes`.
#[cfg(feature = "crc32c")]
pub fn append_castagnoli(crc: u32, bytes: &[u8]) -> u32 {
    if HAS_ONLY_VECTORS { weightstream_kernels::crc::crc32c(crc, bytes) } else { crc32c::crc32c_append(crc, bytes) }
}

/// Like [`append`], with `crc32fast`: it uses CRC instructions of the processor if available, else tables.
fn append_by_table(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// The CRCs of the parts of a file that have been read so far.
#[derive(Debug, Default)]
pub struct Crc32Parts {
    /// Maps the start of each part to its end and its CRC. Parts are disjoint.
    parts: BTreeMap<u64, (u64, u32)>,
}

impl Crc32Parts {
    /// Adds a part. Ignores parts that overlap known parts.
    pub fn add(&mut self, range: Range<u64>, crc32: u32) {
        if !range.is_empty() && self.missing(&range) == range {
            self.parts.insert(range.start, (range.end, crc32));
        }
    }

    /// Returns the first gap in `range` that no part covers; empty if the parts cover all of it.
    pub fn missing(&self, range: &Range<u64>) -> Range<u64> {
        let mut start = range.start;
        if let Some((_, &(end, _))) = self.parts.range(..=start).next_back() {
            start = start.max(end);
        }
        for (&next, &(end, _)) in self.parts.range(start..range.end) {
            if next > start {
                return start..next;
            }
            start = end;
        }
        start.min(range.end)..range.end
    }

    /// Returns the CRC of `range`, if parts cover it exactly and without gaps.
    pub fn over(&self, range: &Range<u64>) -> Option<u32> {
        let (mut position, mut crc) = (range.start, 0);
        for (&start, &(end, part)) in self.parts.range(range.start..range.end) {
            if start != position {
                return None;
            }
            crc = combine(crc, part, end - start);
            position = end;
        }
        (position == range.end).then_some(crc)
    }
}

/// Combines the CRCs of two adjacent byte ranges. `second_length` is the length of the second range in bytes.
pub fn combine(first: u32, second: u32, second_length: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(first);
    hasher.combine(&crc32fast::Hasher::new_with_initial_len(second, second_length));
    hasher.finalize()
}

#[cfg(all(test, native))]
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
    fn missing_returns_the_first_gap() {
        let mut parts = Crc32Parts::default();
        parts.add(10..20, 1);
        parts.add(30..40, 2);
        assert_eq!(parts.missing(&(0..40)), 0..10);
        assert_eq!(parts.missing(&(10..40)), 20..30);
        assert_eq!(parts.over(&(10..40)), None);
    }
}
