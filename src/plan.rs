//! Merges wanted byte ranges into a few long reads ("runs"). No I/O.
//!
//! Requests are expensive: 64 ranges of 4 MB take 2 to 2.6 times as long as one range over all of them. Ranges that are
//! close together are therefore read as one run, including the bytes of short gaps between them.

use crate::sorting::sort;
use std::ops::Range;

/// Wanted ranges that are at most this far apart are read as one run: a round trip takes longer than reading this many
/// bytes.
pub(crate) const DEFAULT_COALESCE_GAP_BYTES: u64 = 1 << 20;

/// A range of bytes to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedRange<T> {
    /// The number of the file in the model.
    pub(crate) shard: usize,
    /// The wanted bytes of the file.
    pub(crate) range: Range<u64>,
    /// The bytes to read to verify `range`: `range` itself, extended to whole pages if page digests are checked.
    pub(crate) read_range: Range<u64>,
    /// The consumer of the bytes.
    pub(crate) target: T,
}

/// One long read, from the first wanted byte to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run<T> {
    /// The number of the file in the model.
    pub(crate) shard: usize,
    /// The bytes to request.
    pub(crate) range: Range<u64>,
    /// The wanted ranges, in order and without overlap.
    pub(crate) wanted: Vec<WantedRange<T>>,
    /// Whether all bytes of `range` must be read, for a checksum over them. Otherwise bytes between the wanted ranges
    /// may be left out.
    pub(crate) reads_all: bool,
}

impl<T> Run<T> {
    /// Splits off the second half of the unread bytes as a new run. Every wanted byte stays in exactly one of the two
    /// runs, and every byte of a run that `reads_all`.
    /// Reading has started for the first `started` wanted ranges, and has reached `position`.
    ///
    /// The split is between two wanted ranges for which `belong_together` is false, or inside the range that is being
    /// read if it `is_divisible`. `None` if one of the halves would be shorter than `min_bytes`.
    pub(crate) fn split(
        &mut self,
        started: usize,
        position: u64,
        min_bytes: u64,
        belong_together: impl Fn(&T, &T) -> bool,
        is_divisible: impl Fn(&T) -> bool,
    ) -> Option<Self>
    where
        T: Clone,
    {
        let end = self.range.end;
        if end.saturating_sub(position) < min_bytes.max(1).saturating_mul(2) {
            return None;
        }
        let middle = position + (end - position) / 2;
        if let Some(current) = started.checked_sub(1).and_then(|at| self.wanted.get_mut(at))
            && current.range.start < position
            && middle < current.range.end
            && is_divisible(&current.target)
        {
            let rest = WantedRange {
                range: middle..current.range.end,
                read_range: middle..current.read_range.end,
                ..current.clone()
            };
            (current.range.end, current.read_range.end, self.range.end) = (middle, middle, middle);
            let wanted = std::iter::once(rest).chain(self.wanted.drain(started..)).collect();
            return Some(Run { range: middle..end, wanted, ..*self });
        }
        let (first_end, at) = self.boundary_nearest_to(middle, started, belong_together)?;
        let start = self.wanted.get(at)?.read_range.start;
        let first_end = if self.reads_all { start } else { first_end };
        if first_end.saturating_sub(position) < min_bytes || end - start < min_bytes {
            return None;
        }
        self.range.end = first_end;
        Some(Run { range: start..end, wanted: self.wanted.split_off(at), ..*self })
    }

    /// The boundary between two wanted ranges that is nearest to `middle`: the end of the first part, and the index of
    /// the second part's first range.
    fn boundary_nearest_to(
        &self,
        middle: u64,
        started: usize,
        belong_together: impl Fn(&T, &T) -> bool,
    ) -> Option<(u64, usize)> {
        let mut read_to = self.range.start;
        let boundaries = self.wanted.windows(2).enumerate().filter_map(|(at, pair)| {
            let [before, after] = pair else { return None };
            read_to = read_to.max(before.read_range.end);
            let is_between = at + 1 >= started && read_to <= after.read_range.start;
            let is_boundary = is_between && !belong_together(&before.target, &after.target);
            is_boundary.then_some((after.read_range.start.abs_diff(middle), read_to, at + 1))
        });
        boundaries.min_by_key(|(distance, ..)| *distance).map(|(_, end, at)| (end, at))
    }
}

/// Sorts the wanted ranges by file and offset, and merges neighbours that are at most `gap(shard)` bytes apart.
///
/// Overlapping ranges are put into different runs, because a stream cannot seek back. Empty ranges are merged with
/// their neighbours and never extend a run.
pub(crate) fn merge_ranges<T>(mut wanted: Vec<WantedRange<T>>, gap: impl Fn(usize) -> u64) -> Vec<Run<T>> {
    sort(&mut wanted, |wanted| (wanted.shard as u64, wanted.range.start, wanted.range.end));
    merge_in_order(wanted, gap)
}

/// Like [`merge_ranges`], but keeps the order of the wanted ranges. A range that does not follow the one before it, in
/// the same file and nearby, starts a run.
pub(crate) fn merge_in_order<T>(mut wanted: Vec<WantedRange<T>>, gap: impl Fn(usize) -> u64) -> Vec<Run<T>> {
    // Allocates no list per run, because most models have one run.
    let mut bounds: Vec<(usize, Range<u64>)> = Vec::new();
    let mut last: Option<&WantedRange<T>> = None;
    for (at, next) in wanted.iter().enumerate() {
        match (last, bounds.last_mut()) {
            (Some(last), Some((_, range))) if joins(last, range, next, gap(next.shard)) => {
                range.end = range.end.max(next.read_range.end);
            }
            _ => bounds.push((at, next.read_range.clone())),
        }
        last = Some(next);
    }
    let split_run = |(at, range)| {
        let wanted = if at == 0 { std::mem::take(&mut wanted) } else { wanted.split_off(at) };
        Some(Run { shard: wanted.first()?.shard, range, wanted, reads_all: false })
    };
    let mut runs: Vec<_> = bounds.into_iter().rev().filter_map(split_run).collect();
    runs.reverse();
    runs
}

/// Extends the runs of each file whose end is known in `ends` so that they read all of its bytes. Adds a run for such a
/// file that has none.
///
/// The bytes between wanted ranges become part of the runs instead of ranges of their own: a file of 100 kB can have
/// 100,000 gaps.
pub(crate) fn extend_to_whole_files<T>(runs: &mut Vec<Run<T>>, ends: &[Option<u64>]) {
    for (shard, end) in ends.iter().enumerate() {
        let Some(end) = *end else { continue };
        let mut of_file: Vec<_> = runs.iter_mut().filter(|run| run.shard == shard).collect();
        of_file.iter_mut().for_each(|run| run.reads_all = true);
        match of_file.as_mut_slice() {
            [] if end > 0 => runs.push(Run { shard, range: 0..end, wanted: Vec::new(), reads_all: true }),
            [] => {}
            [only] => only.range = 0..only.range.end.max(end),
            [first, .., last] => (first.range.start, last.range.end) = (0, last.range.end.max(end)),
        }
    }
}

/// Whether `next` is merged into the run of `last`, whose range so far is `range`.
fn joins<T>(last: &WantedRange<T>, range: &Range<u64>, next: &WantedRange<T>, gap: u64) -> bool {
    let follows = last.range.end <= next.range.start;
    last.shard == next.shard && follows && next.read_range.start.saturating_sub(range.end) <= gap
}

#[cfg(all(test, native))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    fn want(shard: usize, range: Range<u64>) -> WantedRange<()> {
        WantedRange { shard, read_range: range.clone(), range, target: () }
    }

    #[test]
    fn keeps_the_given_order_and_merges_only_what_follows() {
        let wanted = [want(0, 50..60), want(0, 60..70), want(0, 0..10), want(1, 10..20), want(0, 20..30)].to_vec();
        let runs = merge_in_order(wanted, |_| 5);
        let ranges: Vec<_> = runs.iter().map(|run| (run.shard, run.range.clone(), run.wanted.len())).collect();
        assert_eq!(ranges, [(0, 50..70, 2), (0, 0..10, 1), (1, 10..20, 1), (0, 20..30, 1)]);
    }

    #[test]
    fn merges_ranges_in_one_page() {
        let page = |range: Range<u64>| WantedRange {
            read_range: range.start / 100 * 100..range.end.div_ceil(100) * 100,
            ..want(0, range)
        };
        let runs = merge_ranges(vec![page(120..150), page(150..160), page(190..250), page(730..740)], |_| 10);
        let ranges: Vec<_> = runs.iter().map(|run| (run.range.clone(), run.wanted.len())).collect();
        assert_eq!(ranges, [(100..300, 3), (700..800, 1)]);
    }

    #[test]
    fn merges_neighbours() {
        let runs = merge_ranges(vec![want(0, 100..200), want(0, 0..90), want(1, 90..100), want(0, 301..302)], |_| 100);
        let ranges: Vec<_> = runs.iter().map(|run| (run.shard, run.range.clone())).collect();
        assert_eq!(ranges, [(0, 0..200), (0, 301..302), (1, 90..100)]);
    }

    #[test]
    fn gaps_are_per_file() {
        let wanted = vec![want(0, 0..1), want(0, 1000..1001), want(1, 0..1), want(1, 1000..1001)];
        let runs = merge_ranges(wanted, |shard| if shard == 0 { u64::MAX } else { 10 });
        assert_eq!(runs.iter().map(|run| run.range.clone()).collect::<Vec<_>>(), [0..1001, 0..1, 1000..1001]);
    }

    fn runs_of(lengths: &[u64]) -> Run<usize> {
        let mut end = 0;
        let mut wanted = Vec::new();
        for (target, length) in lengths.iter().enumerate() {
            let range = end..end + length;
            end = range.end;
            wanted.push(WantedRange { shard: 0, read_range: range.clone(), range, target });
        }
        Run { shard: 0, range: 0..end, wanted, reads_all: false }
    }

    #[test]
    fn splits_off_half_of_the_rest() {
        let never = |_: &usize, _: &usize| false;
        let mut run = runs_of(&[100, 100, 100, 100]);
        let given = run.split(1, 10, 50, never, |_| false).unwrap();
        assert_eq!((run.range.clone(), run.wanted.len()), (0..200, 2));
        assert_eq!((given.range.clone(), given.wanted.len()), (200..400, 2));
        assert_eq!(run.split(1, 10, 96, never, |_| false), None, "one half would be too short");
        assert_eq!(runs_of(&[100, 100]).split(1, 10, 1, |_, _| true, |_| false), None, "two components of one tensor");
    }

    #[test]
    fn splits_a_divisible_range_that_is_being_read() {
        let mut run = runs_of(&[1000, 100]);
        let given = run.split(1, 100, 50, |_, _| false, |_| true).unwrap();
        assert_eq!((run.range.clone(), run.wanted[0].range.clone()), (0..600, 0..600));
        assert_eq!((given.range, given.wanted[0].range.clone()), (600..1100, 600..1000));
        assert_eq!(given.wanted.iter().map(|wanted| wanted.target).collect::<Vec<_>>(), [0, 1]);
    }

    proptest! {
        #[test]
        fn split_runs_read_each_byte_once(
            lengths in proptest::collection::vec(0u64..100, 1..12), started in 0usize..12, into in 0.0f64..1.0,
            min_bytes in 0u64..60, divisible: bool,
        ) {
            let mut run = runs_of(&lengths);
            let (whole, started) = (run.clone(), started.min(lengths.len()));
            let current = started.checked_sub(1).map_or(0..0, |at| run.wanted[at].range.clone());
            let position = current.start + ((current.end - current.start) as f64 * into) as u64;
            let given = run.split(started, position, min_bytes, |a, b| a / 2 == b / 2, |_| divisible);
            let Some(given) = given else {
                prop_assert_eq!(run, whole);
                return Ok(());
            };
            prop_assert!(run.range.end - position >= min_bytes && given.range.end - given.range.start >= min_bytes);
            prop_assert!(run.wanted.len() >= started.max(1) && position <= run.range.end);
            prop_assert_eq!(run.range.end, given.range.start);
            let mut read = vec![0; lengths.len()];
            for wanted in run.wanted.iter().chain(&given.wanted) {
                read[wanted.target] += wanted.range.end - wanted.range.start;
            }
            prop_assert_eq!(read, lengths);
        }

        #[test]
        fn merged_runs_read_each_range_once_in_order(
            ranges in proptest::collection::vec((0usize..3, 0u64..1000, 0u64..50), 0..40), gap in 0u64..60,
        ) {
            let wanted: Vec<_> =
                ranges.iter().map(|&(shard, start, length)| want(shard, start..start + length)).collect();
            let runs = merge_ranges(wanted.clone(), |_| gap);
            let mut planned: Vec<_> = runs.iter().flat_map(|run| run.wanted.clone()).collect();
            for run in &runs {
                let mut at = run.range.start;
                for wanted in &run.wanted {
                    prop_assert!(at <= wanted.range.start && wanted.range.start - at <= gap);
                    at = wanted.range.end;
                }
                prop_assert_eq!(at, run.range.end);
            }
            let key = |w: &WantedRange<()>| (w.shard, w.range.start, w.range.end);
            let mut wanted = wanted;
            wanted.sort_by_key(key);
            planned.sort_by_key(key);
            prop_assert_eq!(planned, wanted);
        }
    }
}
