//! Digests of ranges of a file, computed while it is read.

use crate::codec::digest::Hasher;
use crate::digest::Digest;
use crate::digest_state::DigestState;
use std::ops::Range;

/// Digests of ranges of a file. Bytes may be added in any order, and more than once.
///
/// A CRC is combined from those of its parts. Any other digest needs its bytes in order, except those after a known
/// [`DigestState`]: it ignores bytes that come too early, and [`Sums::missing`] asks for them again.
#[derive(Debug, Default)]
pub(crate) struct Sums(Vec<Sum>);

#[derive(Debug)]
struct Sum {
    over: Range<u64>,
    /// A digest with the algorithm.
    like: Digest,
    /// The ranges that were added, in order, with their digests. Neighbours that touch are joined.
    parts: Vec<(Range<u64>, Hasher)>,
    /// States with which parts can start, in the order of their offsets.
    states: Vec<DigestState>,
}

impl Sums {
    /// The digests of ranges, each with the algorithm of the given digest.
    pub(crate) fn new(ranges: impl Iterator<Item = (Range<u64>, Digest)>) -> Self {
        Sums(ranges.map(|(over, like)| Sum { over, like, parts: Vec::new(), states: Vec::new() }).collect())
    }

    /// Adds states of the SHA-256 of the whole file, in the order of their offsets.
    pub(crate) fn with_states(mut self, states: &[DigestState]) -> Self {
        for sum in self.0.iter_mut().filter(|sum| sum.over.start == 0 && matches!(sum.like, Digest::Sha256(_))) {
            sum.states = states.to_vec();
        }
        self
    }

    /// Adds the bytes of the file at the offset `start`.
    pub(crate) fn update(&mut self, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        for sum in &mut self.0 {
            let (from, to) = (start.max(sum.over.start), end.min(sum.over.end));
            if from < to {
                let bytes = bytes.get((from - start) as usize..(to - start) as usize);
                sum.update(from, bytes.unwrap_or_default());
            }
        }
    }

    /// Whether a digest covers bytes of the range.
    pub(crate) fn include(&self, range: &Range<u64>) -> bool {
        self.0.iter().any(|sum| sum.over.start < range.end && range.start < sum.over.end)
    }

    /// Whether no byte needs to be added again if they are added in any order.
    pub(crate) fn take_any_order(&self) -> bool {
        self.0.iter().all(|sum| Hasher::can_append(sum.like))
    }

    /// Whether bytes from this offset on may be added before others, as for [`Sums::take_any_order`].
    pub(crate) fn can_start_at(&self, at: u64) -> bool {
        self.0
            .iter()
            .all(|sum| Hasher::can_append(sum.like) || at <= sum.over.start || state_at(&sum.states, at).is_some())
    }

    /// The end of the bytes that the digests cover; `None` if there are none.
    pub(crate) fn end(&self) -> Option<u64> {
        self.0.iter().map(|sum| sum.over.end).max()
    }

    /// The first bytes that a digest lacks.
    pub(crate) fn missing(&self) -> Option<Range<u64>> {
        self.0.iter().find_map(Sum::missing)
    }

    /// The bytes before `end` that a digest needs first if it gets its bytes in order, at most `max_bytes` of them.
    #[cfg(writes)]
    pub(crate) fn gap_before(&self, end: u64, max_bytes: u64) -> Option<Range<u64>> {
        let gaps = self.0.iter().filter_map(|sum| sum.gap_before(end));
        gaps.filter(|gap| gap.end - gap.start <= max_bytes).min_by_key(|gap| gap.start)
    }

    /// The digest of a range with the algorithm of `like`; `None` if bytes are missing.
    pub(crate) fn digest(&self, range: &Range<u64>, like: Digest) -> Option<Digest> {
        let is_wanted = |sum: &&Sum| sum.over == *range && sum.like.algorithm() == like.algorithm();
        let sum = self.0.iter().find(is_wanted)?;
        match sum.missing() {
            Some(_) => None,
            None => Some(sum.parts.first().map_or_else(|| Hasher::new(like), |(_, hasher)| hasher.clone()).finish()),
        }
    }
}

impl Sum {
    /// Adds bytes inside the range.
    fn update(&mut self, start: u64, bytes: &[u8]) {
        let (mut from, to) = (start, start + bytes.len() as u64);
        while from < to {
            let next = self.parts.partition_point(|(part, _)| part.start <= from);
            let end = self.parts.get(next).map_or(to, |(part, _)| part.start.min(to));
            let piece = bytes.get((from - start) as usize..(end - start) as usize).unwrap_or_default();
            let before = next.checked_sub(1);
            match before.and_then(|before| self.parts.get_mut(before)) {
                Some((part, _)) if part.end > from => {
                    from = part.end; // these bytes were added before
                    continue;
                }
                Some((part, hasher)) if part.end == from => {
                    hasher.update(piece);
                    part.end = end;
                    self.join(next);
                }
                _ => {
                    if let Some(mut hasher) = self.started_at(from) {
                        hasher.update(piece);
                        self.parts.insert(next, (from..end, hasher));
                        self.join(next + 1);
                    }
                }
            }
            from = end;
        }
    }

    /// A hasher for the bytes from an offset on. `None` if those before are needed first.
    fn started_at(&self, at: u64) -> Option<Hasher> {
        match at == self.over.start || Hasher::can_append(self.like) {
            true => Some(Hasher::new(self.like)),
            false => Hasher::resume(state_at(&self.states, at)?),
        }
    }

    /// Joins the part `next` to the one before it if they touch. A part that started with another state than the one
    /// before it has at its end is dropped, so that its bytes are added again.
    fn join(&mut self, next: usize) {
        let Some([(before, _), (part, _)]) = next.checked_sub(1).and_then(|at| self.parts.get(at..next + 1)) else {
            return;
        };
        if before.end == part.start {
            let (part, hasher) = self.parts.remove(next);
            let state = state_at(&self.states, part.start);
            if let Some((before, whole)) = self.parts.get_mut(next - 1) {
                if state.is_some_and(|state| whole.is_in(state)) {
                    *whole = hasher;
                    before.end = part.end;
                } else if whole.append(hasher, part.end - part.start) {
                    before.end = part.end;
                }
            }
        }
    }

    #[cfg(writes)]
    fn gap_before(&self, end: u64) -> Option<Range<u64>> {
        let next = self.parts.partition_point(|(part, _)| part.start < end);
        let before = next.checked_sub(1).and_then(|before| self.parts.get(before));
        let start = before.map_or(self.over.start, |(part, _)| part.end);
        (start < end && end <= self.over.end).then_some(start..end)
    }

    fn missing(&self) -> Option<Range<u64>> {
        let mut starts = self.parts.iter().map(|(part, _)| part.start).chain([self.over.end]);
        let (start, end) = match self.parts.first() {
            Some((part, _)) if part.start == self.over.start => (part.end, starts.nth(1)?),
            _ => (self.over.start, starts.next()?),
        };
        (start < end).then_some(start..end)
    }
}

fn state_at(states: &[DigestState], at: u64) -> Option<&DigestState> {
    states.get(states.binary_search_by_key(&at, |state| state.offset).ok()?)
}
