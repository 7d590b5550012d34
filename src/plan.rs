//! Which bytes to ask for: wanted ranges become few long runs. No I/O.
//!
//! A request costs more than a chunk of a body: 64 ranges of 4 MB take 2 to 2.6 times as long as one
//! range over all of them. So neighbours are read as one run, with the bytes between them where
//! they are few, and every piece of the body goes to the tensor it belongs to.

use std::ops::Range;

/// Two wanted ranges closer than this are read as one: a round trip costs more than this many bytes.
pub(crate) const DEFAULT_COALESCE_GAP_BYTES: u64 = 1 << 20;

/// A range that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted<T> {
    /// Which file of the model.
    pub(crate) shard: usize,
    /// The bytes of the file.
    pub(crate) range: Range<u64>,
    /// The bytes that must be read to check them: these and perhaps some around.
    pub(crate) cover: Range<u64>,
    /// What they are for.
    pub(crate) purpose: T,
}

/// What one request reads: from the first wanted byte to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run<T> {
    /// Which file of the model.
    pub(crate) shard: usize,
    /// The bytes to ask for.
    pub(crate) range: Range<u64>,
    /// What is wanted of them, in order and without overlap; the bytes between are read and dropped.
    pub(crate) wanted: Vec<Wanted<T>>,
}

impl<T> Run<T> {
    /// Gives away the later half of what is left to read, as a run of its own: nothing of it was asked for twice, nor
    /// is any byte of it left out. The first `begun` of `wanted` are being read, and all before `position` was.
    ///
    /// It is cut between two of `wanted`, unless `belong_together` says that they are of one tensor, or inside the one
    /// that is being read if that `is_divisible`. `None` where one of the halves would have fewer than `least_bytes`.
    pub(crate) fn split(
        &mut self,
        begun: usize,
        position: u64,
        least_bytes: u64,
        belong_together: impl Fn(&T, &T) -> bool,
        is_divisible: impl Fn(&T) -> bool,
    ) -> Option<Self>
    where
        T: Clone,
    {
        let end = self.range.end;
        if end.saturating_sub(position) < least_bytes.max(1).saturating_mul(2) {
            return None;
        }
        let middle = position + (end - position) / 2;
        if let Some(current) = begun.checked_sub(1).and_then(|at| self.wanted.get_mut(at))
            && current.range.start < position
            && middle < current.range.end
            && is_divisible(&current.purpose)
        {
            let rest = Wanted { range: middle..current.range.end, cover: middle..current.cover.end, ..current.clone() };
            (current.range.end, current.cover.end, self.range.end) = (middle, middle, middle);
            let wanted = std::iter::once(rest).chain(self.wanted.drain(begun..)).collect();
            return Some(Run { shard: self.shard, range: middle..end, wanted });
        }
        let (first_end, at) = self.boundary_nearest_to(middle, begun, belong_together)?;
        let start = self.wanted.get(at)?.cover.start;
        if first_end.saturating_sub(position) < least_bytes || end - start < least_bytes {
            return None;
        }
        self.range.end = first_end;
        Some(Run { shard: self.shard, range: start..end, wanted: self.wanted.split_off(at) })
    }

    /// Where to cut between two of `wanted`: up to where the first part reads, and the first of the other part.
    fn boundary_nearest_to(
        &self,
        middle: u64,
        begun: usize,
        belong_together: impl Fn(&T, &T) -> bool,
    ) -> Option<(u64, usize)> {
        let mut read_to = self.range.start;
        let boundaries = self.wanted.windows(2).enumerate().filter_map(|(at, pair)| {
            let [before, behind] = pair else { return None };
            read_to = read_to.max(before.cover.end);
            let is_between = at + 1 >= begun && read_to <= behind.cover.start;
            let cuts = is_between && !belong_together(&before.purpose, &behind.purpose);
            cuts.then_some((behind.cover.start.abs_diff(middle), read_to, at + 1))
        });
        boundaries.min_by_key(|(distance, ..)| *distance).map(|(_, end, at)| (end, at))
    }
}

/// Orders what is wanted by file and offset and joins neighbours that are at most as many bytes apart as `gap` says for
/// their file.
///
/// Ranges that overlap come in different runs, since a stream does not go back. Empty ranges stay with
/// their neighbours and never make a run of any bytes.
pub(crate) fn plan<T>(mut wanted: Vec<Wanted<T>>, gap: impl Fn(usize) -> u64) -> Vec<Run<T>> {
    // Neither a copy to sort nor one for each run: a model may have 100,000 tensors, and most have one run.
    wanted.sort_unstable_by_key(|w| (w.shard, w.range.start, w.range.end));
    let mut bounds: Vec<(usize, Range<u64>)> = Vec::new();
    let mut last: Option<&Wanted<T>> = None;
    for (at, next) in wanted.iter().enumerate() {
        match (last, bounds.last_mut()) {
            (Some(last), Some((_, range))) if joins(last, range, next, gap(next.shard)) => {
                range.end = range.end.max(next.cover.end);
            }
            _ => bounds.push((at, next.cover.clone())),
        }
        last = Some(next);
    }
    let cut = |(at, range)| {
        let wanted = if at == 0 { std::mem::take(&mut wanted) } else { wanted.split_off(at) };
        Some(Run { shard: wanted.first()?.shard, range, wanted })
    };
    let mut runs: Vec<_> = bounds.into_iter().rev().filter_map(cut).collect();
    runs.reverse();
    runs
}

/// Whether `next` is read in the same run as `last`, where the run reads `range` so far.
fn joins<T>(last: &Wanted<T>, range: &Range<u64>, next: &Wanted<T>, gap: u64) -> bool {
    let follows = last.range.end <= next.range.start;
    last.shard == next.shard && follows && next.cover.start.saturating_sub(range.end) <= gap
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    fn want(shard: usize, range: Range<u64>) -> Wanted<()> {
        Wanted { shard, cover: range.clone(), range, purpose: () }
    }

    #[test]
    fn what_must_be_read_around_is_read_once() {
        let page = |range: Range<u64>| Wanted {
            cover: range.start / 100 * 100..range.end.div_ceil(100) * 100,
            ..want(0, range)
        };
        let runs = plan(vec![page(120..150), page(150..160), page(190..250), page(730..740)], |_| 10);
        let ranges: Vec<_> = runs.iter().map(|run| (run.range.clone(), run.wanted.len())).collect();
        assert_eq!(ranges, [(100..300, 3), (700..800, 1)]);
    }

    #[test]
    fn neighbours_are_read_as_one_run() {
        let runs = plan(vec![want(0, 100..200), want(0, 0..90), want(1, 90..100), want(0, 301..302)], |_| 100);
        let ranges: Vec<_> = runs.iter().map(|run| (run.shard, run.range.clone())).collect();
        assert_eq!(ranges, [(0, 0..200), (0, 301..302), (1, 90..100)]);
    }

    #[test]
    fn each_file_has_a_gap_of_its_own() {
        let wanted = vec![want(0, 0..1), want(0, 1000..1001), want(1, 0..1), want(1, 1000..1001)];
        let runs = plan(wanted, |shard| if shard == 0 { u64::MAX } else { 10 });
        assert_eq!(runs.iter().map(|run| run.range.clone()).collect::<Vec<_>>(), [0..1001, 0..1, 1000..1001]);
    }

    fn runs_of(lengths: &[u64]) -> Run<usize> {
        let mut end = 0;
        let mut wanted = Vec::new();
        for (purpose, length) in lengths.iter().enumerate() {
            let range = end..end + length;
            end = range.end;
            wanted.push(Wanted { shard: 0, cover: range.clone(), range, purpose });
        }
        Run { shard: 0, range: 0..end, wanted }
    }

    #[test]
    fn half_of_what_is_left_is_given_away() {
        let never = |_: &usize, _: &usize| false;
        let mut run = runs_of(&[100, 100, 100, 100]);
        let given = run.split(1, 10, 50, never, |_| false).unwrap();
        assert_eq!((run.range.clone(), run.wanted.len()), (0..200, 2));
        assert_eq!((given.range.clone(), given.wanted.len()), (200..400, 2));
        assert_eq!(run.split(1, 10, 96, never, |_| false), None, "too little would be left to one of them");
        assert_eq!(runs_of(&[100, 100]).split(1, 10, 1, |_, _| true, |_| false), None, "one tensor of two parts");
    }

    #[test]
    fn a_tensor_that_is_being_read_is_cut_where_it_can_be() {
        let mut run = runs_of(&[1000, 100]);
        let given = run.split(1, 100, 50, |_, _| false, |_| true).unwrap();
        assert_eq!((run.range.clone(), run.wanted[0].range.clone()), (0..600, 0..600));
        assert_eq!((given.range, given.wanted[0].range.clone()), (600..1100, 600..1000));
        assert_eq!(given.wanted.iter().map(|wanted| wanted.purpose).collect::<Vec<_>>(), [0, 1]);
    }

    proptest! {
        #[test]
        fn what_is_split_is_still_read_once(
            lengths in proptest::collection::vec(0u64..100, 1..12), begun in 0usize..12, into in 0.0f64..1.0,
            least_bytes in 0u64..60, divisible: bool,
        ) {
            let mut run = runs_of(&lengths);
            let (whole, begun) = (run.clone(), begun.min(lengths.len()));
            let current = begun.checked_sub(1).map_or(0..0, |at| run.wanted[at].range.clone());
            let position = current.start + ((current.end - current.start) as f64 * into) as u64;
            let given = run.split(begun, position, least_bytes, |a, b| a / 2 == b / 2, |_| divisible);
            let Some(given) = given else {
                prop_assert_eq!(run, whole);
                return Ok(());
            };
            prop_assert!(run.range.end - position >= least_bytes && given.range.end - given.range.start >= least_bytes);
            prop_assert!(run.wanted.len() >= begun.max(1) && position <= run.range.end);
            prop_assert_eq!(run.range.end, given.range.start);
            let mut read = vec![0; lengths.len()];
            for wanted in run.wanted.iter().chain(&given.wanted) {
                read[wanted.purpose] += wanted.range.end - wanted.range.start;
            }
            prop_assert_eq!(read, lengths);
        }

        #[test]
        fn every_wanted_range_is_read_once_in_order(
            ranges in proptest::collection::vec((0usize..3, 0u64..1000, 0u64..50), 0..40), gap in 0u64..60,
        ) {
            let wanted: Vec<_> = ranges.iter().map(|&(shard, start, length)| want(shard, start..start + length)).collect();
            let runs = plan(wanted.clone(), |_| gap);
            let mut planned: Vec<_> = runs.iter().flat_map(|run| run.wanted.clone()).collect();
            for run in &runs {
                let mut at = run.range.start;
                for wanted in &run.wanted {
                    prop_assert!(at <= wanted.range.start && wanted.range.start - at <= gap);
                    at = wanted.range.end;
                }
                prop_assert_eq!(at, run.range.end);
            }
            let key = |w: &Wanted<()>| (w.shard, w.range.start, w.range.end);
            let mut wanted = wanted;
            wanted.sort_by_key(key);
            planned.sort_by_key(key);
            prop_assert_eq!(planned, wanted);
        }
    }
}
