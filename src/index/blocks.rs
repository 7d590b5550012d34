//! The blocks of a compressed component. Each is compressed alone, so a part of the component can be read without the
//! bytes before it.

use super::Component;
use super::stored_end::StoredEnd;
use super::values::ValueRule;
use crate::error::{Result, malformed};
use std::ops::Range;

/// The end of a block: an LZ4 block, or a Zstandard frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockEnd {
    /// The number of stored bytes up to the end, including the fields between blocks.
    pub stored: u64,
    /// The number of decoded bytes up to the end.
    pub decoded: u64,
}

impl BlockEnd {
    /// The end of the block of these lengths that follows.
    pub(crate) fn next(self, stored: u64, decoded: u64) -> Option<Self> {
        Some(BlockEnd { stored: self.stored.checked_add(stored)?, decoded: self.decoded.checked_add(decoded)? })
    }
}

/// The ends of consecutive blocks, from the first block of a component.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blocks(Vec<BlockEnd>);

/// A part of a component that begins and ends between blocks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockSpan {
    /// The blocks, as a component of their own. It has no digest.
    pub(crate) component: Component,
    /// Where they begin in the component.
    pub(crate) start: BlockEnd,
    /// Complete if they end with a known block, and not with the component.
    pub(crate) end: StoredEnd,
}

impl Blocks {
    /// The blocks of these stored and decoded lengths, which must be all blocks of the component. What decodes to no
    /// bytes, such as a table of the blocks, counts with the block behind it.
    ///
    /// # Errors
    /// `FORMAT` if their sums are not the lengths of the component.
    pub(crate) fn all(component: &Component, lengths: impl Iterator<Item = (u64, u64)>) -> Result<Self> {
        let mut ends = Vec::new();
        let mut end = BlockEnd::default();
        for (stored, decoded) in lengths {
            end = end.next(stored, decoded).ok_or_else(|| malformed("the lengths of its blocks overflow u64"))?;
            if decoded > 0 {
                ends.push(end);
            }
        }
        let stored = component.range.end - component.range.start;
        if end.stored != stored || Some(end.decoded) != component.decoded_length {
            let what = format!(
                "its blocks have {} bytes, {} decoded; the index states {stored} bytes, {:?} decoded",
                end.stored, end.decoded, component.decoded_length
            );
            return Err(malformed(what));
        }
        Ok(Blocks(ends))
    }

    /// Adds blocks that were decoded: the ends of those after `start`, relative to it. Does nothing if `start` is not
    /// a known end, or if all of these blocks are known.
    pub(crate) fn learn(&mut self, start: BlockEnd, decoded: &[BlockEnd]) {
        let known = self.last();
        if start != BlockEnd::default() && self.0.binary_search_by_key(&start.decoded, |end| end.decoded).is_err() {
            return;
        }
        let ends = decoded.iter().filter_map(|end| start.next(end.stored, end.decoded));
        self.0.extend(ends.filter(|end| end.decoded > known.decoded));
    }

    /// The end of the last known block.
    pub(crate) fn last(&self) -> BlockEnd {
        self.0.last().copied().unwrap_or_default()
    }

    /// Whether these blocks begin `start` and end there: `decoded` are ends relative to it.
    pub(crate) fn matches(&self, start: BlockEnd, decoded: &[BlockEnd]) -> bool {
        let first = self.0.partition_point(|end| end.decoded <= start.decoded);
        let known = self.0.get(first..).unwrap_or_default();
        decoded.len() <= known.len()
            && decoded.iter().zip(known).all(|(end, known)| start.next(end.stored, end.decoded) == Some(*known))
    }

    /// The blocks that hold `wanted` decoded bytes, as far as they are known: from the last known start before them to
    /// the first known end behind them, else to the end of the component. `None` if that is all of the component, or if
    /// its decoded length is not known.
    pub(crate) fn span(&self, component: &Component, wanted: &Range<u64>) -> Option<BlockSpan> {
        let length = component.decoded_length?;
        let all = BlockEnd { stored: component.range.end - component.range.start, decoded: length };
        let before = self.0.partition_point(|end| end.decoded <= wanted.start);
        let start = before.checked_sub(1).and_then(|last| self.0.get(last)).copied().unwrap_or_default();
        let behind = self.0.partition_point(|end| end.decoded < wanted.end);
        let known_end = self.0.get(behind).copied();
        let end = known_end.unwrap_or(all);
        if (start, end) == (BlockEnd::default(), all) || start.stored > end.stored || end.stored > all.stored {
            return None;
        }
        let range = component.range.start + start.stored..component.range.start + end.stored;
        let decoded_length = Some(end.decoded.checked_sub(start.decoded)?);
        // A rule for the last byte of the component does not apply to that of other blocks.
        let rule = component.rule.filter(|rule| end == all || *rule != ValueRule::ZeroLastHalf);
        let component = Component { range, decoded_length, digest: None, rule, ..component.clone() };
        let end = known_end.map_or(StoredEnd::Anywhere, |_| StoredEnd::Complete);
        Some(BlockSpan { component, start, end })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn component() -> Component {
        Component { decoded_length: Some(100), ..Component::raw(Dtype::U8, 1000..1030) }
    }

    fn blocks() -> Blocks {
        Blocks::all(&component(), [(10, 40), (12, 40), (8, 20)].into_iter()).unwrap()
    }

    fn span(blocks: &Blocks, wanted: Range<u64>) -> Option<(Range<u64>, u64, u64)> {
        let BlockSpan { component, start, .. } = blocks.span(&component(), &wanted)?;
        Some((component.range, start.decoded, component.decoded_length.unwrap()))
    }

    #[test]
    fn a_cut_has_only_the_blocks_of_the_wanted_bytes() {
        let blocks = blocks();
        assert_eq!(span(&blocks, 0..40), Some((1000..1010, 0, 40)));
        assert_eq!(span(&blocks, 39..41), Some((1000..1022, 0, 80)));
        assert_eq!(span(&blocks, 40..41), Some((1010..1022, 40, 40)));
        assert_eq!(span(&blocks, 80..100), Some((1022..1030, 80, 20)));
        assert_eq!(span(&blocks, 0..100), None);
    }

    #[test]
    fn a_rule_for_the_last_byte_applies_only_to_the_last_block() {
        let component = Component { rule: Some(ValueRule::ZeroLastHalf), ..component() };
        let rule_of = |wanted| blocks().span(&component, &wanted).unwrap().component.rule;
        assert_eq!([rule_of(0..40), rule_of(80..100)], [None, Some(ValueRule::ZeroLastHalf)]);
    }

    #[test]
    fn decoded_blocks_extend_the_known_ones() {
        let mut blocks = Blocks::default();
        assert_eq!(span(&blocks, 50..60), None);
        blocks.learn(BlockEnd::default(), &[BlockEnd { stored: 10, decoded: 40 }]);
        assert_eq!(span(&blocks, 50..60), Some((1010..1030, 40, 60)));
        blocks.learn(BlockEnd { stored: 22, decoded: 80 }, &[BlockEnd { stored: 8, decoded: 20 }]);
        assert_eq!(blocks.last().decoded, 40, "there would be a gap");
        blocks.learn(blocks.last(), &[BlockEnd { stored: 12, decoded: 40 }, BlockEnd { stored: 20, decoded: 60 }]);
        assert_eq!(blocks, self::blocks());
        blocks.learn(BlockEnd::default(), &[BlockEnd { stored: 10, decoded: 40 }]);
        assert_eq!(blocks, self::blocks());
    }

    #[test]
    fn decoded_blocks_must_match_the_stated_ones() {
        let second = BlockEnd { stored: 10, decoded: 40 };
        assert!(blocks().matches(second, &[BlockEnd { stored: 12, decoded: 40 }]));
        assert!(!blocks().matches(second, &[BlockEnd { stored: 12, decoded: 39 }]));
        assert!(!blocks().matches(second, &[BlockEnd { stored: 11, decoded: 40 }]));
    }

    #[test]
    fn refuses_lengths_that_are_not_those_of_the_component() {
        for lengths in [vec![(10, 40), (12, 40)], vec![(30, 100), (1, 0)], vec![(u64::MAX, 1), (1, 1)]] {
            assert!(Blocks::all(&component(), lengths.into_iter()).is_err());
        }
    }
}
