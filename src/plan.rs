//! Which bytes to ask for: wanted ranges become few long runs. No I/O.
//!
//! A request costs more than a chunk of a body: 64 ranges of 4 MB take 2 to 2.6 times as long as one
//! range over all of them. So neighbours are read as one run, with the bytes between them where
//! they are few, and every piece of the body goes to the tensor it belongs to.

use std::ops::Range;

/// Two wanted ranges closer than this are read as one: a round trip costs more than this many bytes.
pub const DEFAULT_COALESCE_GAP_BYTES: u64 = 1 << 20;

/// A range that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<T> {
    /// Which file of the model.
    pub shard: usize,
    /// The bytes of the file.
    pub range: Range<u64>,
    /// The bytes that must be read to check them: these and perhaps some around.
    pub cover: Range<u64>,
    /// What they are for.
    pub purpose: T,
}

/// What one request reads: from the first wanted byte to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run<T> {
    /// Which file of the model.
    pub shard: usize,
    /// The bytes to ask for.
    pub range: Range<u64>,
    /// What is wanted of them, in order and without overlap; the bytes between are read and dropped.
    pub wanted: Vec<Wanted<T>>,
}

/// Orders what is wanted by file and offset and joins neighbours that are at most as many bytes apart as `gap` says for
/// their file.
///
/// Ranges that overlap come in different runs, since a stream does not go back. Empty ranges stay with
/// their neighbours and never make a run of any bytes.
pub fn plan<T>(mut wanted: Vec<Wanted<T>>, gap: impl Fn(usize) -> u64) -> Vec<Run<T>> {
    wanted.sort_by_key(|w| (w.shard, w.range.start, w.range.end));
    let mut runs: Vec<Run<T>> = Vec::new();
    for next in wanted {
        match runs.last_mut() {
            Some(run) if joins(run, &next, gap(next.shard)) => {
                run.range.end = run.range.end.max(next.cover.end);
                run.wanted.push(next);
            }
            _ => runs.push(Run { shard: next.shard, range: next.cover.clone(), wanted: vec![next] }),
        }
    }
    runs
}

fn joins<T>(run: &Run<T>, next: &Wanted<T>, gap: u64) -> bool {
    let follows = run.wanted.last().is_none_or(|last| last.range.end <= next.range.start);
    run.shard == next.shard && follows && next.cover.start.saturating_sub(run.range.end) <= gap
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
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

    proptest! {
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
