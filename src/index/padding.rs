//! Padding that a format requires to be zero: other bytes may be remains of unrelated data.

use super::{Component, Tensor};
use std::borrow::Borrow;
use std::ops::Range;

/// Checks the padding of one file. The bytes may come in any order and split at any position.
#[derive(Debug, Default)]
pub(crate) struct PaddingCheck {
    /// The ranges of padding, in order.
    gaps: Vec<Range<u64>>,
    /// The number of bytes that are not zero.
    nonzero: u64,
    /// The first of them.
    first: Option<u64>,
}

impl PaddingCheck {
    /// The check of a file whose components begin at multiples of `alignment`, after a head of `head_bytes`. A longer
    /// gap is not padding.
    pub(crate) fn new(tensors: impl Iterator<Item = impl Borrow<Tensor>>, head_bytes: u64, alignment: u64) -> Self {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for tensor in tensors {
            for Range { start, end } in tensor.borrow().components.iter().flat_map(Component::stored_ranges) {
                starts.push(start);
                ends.push(end);
            }
        }
        // Components do not overlap, so that both lists have them in the same order.
        starts.sort_unstable();
        ends.sort_unstable();
        let gaps = std::iter::once(head_bytes).chain(ends).zip(starts).map(|(end, start)| end..start);
        let is_padding =
            |gap: &Range<u64>| !gap.is_empty() && gap.end - gap.start < alignment && gap.end.is_multiple_of(alignment);
        let gaps = gaps.filter(is_padding).collect();
        PaddingCheck { gaps, ..PaddingCheck::default() }
    }

    /// The ranges of padding.
    pub(crate) fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    /// Whether there is padding in a range of the file.
    pub(crate) fn includes(&self, range: &Range<u64>) -> bool {
        let from = self.gaps.partition_point(|gap| gap.end <= range.start);
        self.gaps.get(from).is_some_and(|gap| gap.start < range.end)
    }

    /// Checks the bytes of the file at the offset `start`.
    pub(crate) fn update(&mut self, start: u64, bytes: &[u8]) {
        let end = start.saturating_add(bytes.len() as u64);
        let from = self.gaps.partition_point(|gap| gap.end <= start);
        for gap in self.gaps.iter().skip(from).take_while(|gap| gap.start < end) {
            let (from, to) = (gap.start.max(start), gap.end.min(end));
            let padding = bytes.get((from - start) as usize..(to - start) as usize).unwrap_or_default();
            for (at, _) in (from..).zip(padding).filter(|(_, byte)| **byte != 0) {
                self.nonzero += 1;
                self.first = Some(self.first.map_or(at, |first| first.min(at)));
            }
        }
    }

    /// The warning about bytes that are not zero.
    pub(crate) fn warning(&self) -> Option<String> {
        let first = self.first?;
        Some(format!(
            "{} bytes of padding are not zero, although the format requires it; the first is byte {first}",
            self.nonzero
        ))
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::index::Component;

    fn check(ranges: &[Range<u64>]) -> PaddingCheck {
        let tensor = |range: &Range<u64>| {
            let data = Component::raw(Dtype::U8, range.clone());
            Tensor::dense("t".to_owned(), Dtype::U8, vec![range.end - range.start], data)
        };
        let tensors: Vec<_> = ranges.iter().map(tensor).collect();
        PaddingCheck::new(tensors.iter(), 8, 64)
    }

    #[test]
    fn gaps_before_aligned_components_are_padding() {
        assert_eq!(check(&[128..130, 64..70, 192..192]).gaps(), [8..64, 70..128, 130..192]);
        assert_eq!(check(&[64..70, 128..130, 200..210]).gaps(), [8..64, 70..128], "not aligned");
        assert_eq!(check(&[64..70, 128..130, 256..257]).gaps(), [8..64, 70..128], "a hole");
    }

    #[test]
    fn bytes_of_tensors_and_holes_are_ignored() {
        let mut check = check(&[64..70, 128..130]);
        for (range, expected) in [(0..8, false), (0..9, true), (63..64, true), (64..70, false), (127..200, true)] {
            assert_eq!(check.includes(&range), expected, "{range:?}");
        }
        assert!(!PaddingCheck::default().includes(&(0..200)));
        let mut file = vec![0; 200];
        for at in [0, 64, 69, 128, 150] {
            file[at] = 1;
        }
        check.update(0, &file);
        assert_eq!(check.warning(), None);
        for at in [127, 70, 63] {
            file[at] = 1;
        }
        for (number, piece) in file.chunks(7).enumerate().collect::<Vec<_>>().into_iter().rev() {
            check.update(number as u64 * 7, piece);
        }
        let warning = "3 bytes of padding are not zero, although the format requires it; the first is byte 63";
        assert_eq!(check.warning().as_deref(), Some(warning));
    }
}
