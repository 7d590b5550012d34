//! Which parts of tensors are read before all others, so that large parts need not wait for them in memory.

use crate::loader::schedule::target::Target;
use crate::plan::WantedRange;

/// How much larger than an early part the largest part of its tensor is at least.
const RATIO: u64 = 4;

/// How far behind the largest part of its tensor an early part of the same file is at least. Nearer ones are read with
/// it.
const FAR_BYTES: u64 = 4 << 20;

/// Splits off the small parts of tensors whose largest part would arrive long before them: scales that are stored
/// behind all codes, and updates in the file of an adapter.
///
/// The parts of a tensor follow each other in `wanted`. Early parts have at most `max_bytes` together, and are in files
/// for which `is_any_order` is true. Returns them, and the others.
pub(crate) fn split_early(
    wanted: Vec<WantedRange<Target>>,
    mut max_bytes: u64,
    is_any_order: impl Fn(usize) -> bool,
) -> [Vec<WantedRange<Target>>; 2] {
    let length = |part: &WantedRange<Target>| part.range.end.saturating_sub(part.range.start);
    let mut positions = Vec::new(); // of early parts: most models have none, and need no second list
    let mut at = 0;
    for tensor in wanted.chunk_by(|part, next| part.target.slot == next.target.slot) {
        let largest = tensor.iter().max_by_key(|part| length(part));
        let Some(largest) = largest else { continue };
        for part in tensor {
            let is_small = length(part).saturating_mul(RATIO) <= length(largest);
            let is_far = part.range.start >= largest.range.end.saturating_add(FAR_BYTES);
            let is_late = part.shard > largest.shard || (part.shard == largest.shard && is_far);
            if let Some(left) = max_bytes.checked_sub(length(part))
                && is_small
                && is_late
                && is_any_order(part.shard)
            {
                max_bytes = left;
                positions.push(at);
            }
            at += 1;
        }
    }
    if positions.is_empty() {
        return [Vec::new(), wanted];
    }
    let [mut early, mut others] = [Vec::new(), Vec::new()];
    let mut positions = positions.into_iter().peekable();
    for (at, part) in wanted.into_iter().enumerate() {
        match positions.next_if_eq(&at) {
            Some(_) => early.push(part),
            None => others.push(part),
        }
    }
    [early, others]
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use std::ops::Range;

    const MIB: u64 = 1 << 20;

    fn part(slot: usize, component: usize, shard: usize, range: Range<u64>) -> WantedRange<Target> {
        let range = range.start * MIB..range.end * MIB;
        WantedRange { shard, read_range: range.clone(), range, target: Target { slot, component } }
    }

    fn early(parts: Vec<WantedRange<Target>>) -> Vec<(usize, usize)> {
        let [early, others] = split_early(parts.clone(), u64::MAX, |_| true);
        let mut all: Vec<_> = early.iter().chain(&others).collect();
        all.sort_by_key(|part| (part.target.slot, part.target.component));
        assert!(all.into_iter().eq(&parts));
        early.into_iter().map(|part| (part.target.slot, part.target.component)).collect()
    }

    #[test]
    fn scales_behind_all_codes_are_early() {
        let tensors = vec![part(0, 0, 0, 0..40), part(0, 1, 0, 80..82), part(1, 0, 0, 40..80), part(1, 1, 0, 82..84)];
        assert_eq!(early(tensors), [(0, 1)]);
        let far = vec![part(0, 0, 0, 0..40), part(0, 1, 0, 90..92), part(1, 0, 0, 40..80), part(1, 1, 0, 92..94)];
        assert_eq!(early(far), [(0, 1), (1, 1)]);
    }

    #[test]
    fn factors_in_a_later_file_are_early() {
        let tensors = vec![part(0, 0, 0, 0..40), part(0, 1, 1, 0..1), part(0, 2, 1, 1..2), part(1, 0, 0, 40..80)];
        assert_eq!(early(tensors), [(0, 1), (0, 2)]);
    }

    #[test]
    fn files_that_are_read_once_and_more_than_the_limit_are_not_early() {
        let tensors = || vec![part(0, 0, 0, 0..40), part(0, 1, 1, 0..1), part(1, 0, 0, 40..80), part(1, 1, 1, 1..2)];
        let count = |max_bytes, is_any_order: fn(usize) -> bool| {
            let [early, others] = split_early(tensors(), max_bytes, is_any_order);
            assert_eq!(early.len() + others.len(), 4);
            early.len()
        };
        assert_eq!(count(2 * MIB, |_| true), 2);
        assert_eq!(count(2 * MIB - 1, |_| true), 1);
        assert_eq!(count(MIB - 1, |_| true), 0);
        assert_eq!(count(u64::MAX, |shard| shard == 0), 0);
    }

    #[test]
    fn parts_that_arrive_in_time_keep_their_order() {
        let before = vec![part(0, 0, 0, 40..80), part(0, 1, 0, 0..2)];
        let beside = vec![part(0, 0, 0, 0..40), part(0, 1, 0, 41..42)];
        let large = vec![part(0, 0, 0, 0..40), part(0, 1, 1, 0..20)];
        let single = vec![part(0, 0, 0, 0..40), part(1, 0, 1, 0..1)];
        for parts in [before, beside, large, single] {
            assert_eq!(early(parts), []);
        }
    }
}
