//! A seeded, reproducible random number generator.

use std::ops::Range;

/// SplitMix64, which has no weak seeds: adjacent seeds give unrelated sequences.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A generator with a different sequence for each `number`.
    pub fn fork(&self, number: u64) -> Self {
        let mut fork = Random(self.0 ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        fork.next();
        fork
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `range`, or its start if the range is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % range.end.saturating_sub(range.start).max(1)
    }

    /// `true` with a probability of `chance` percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.within(0..100) < chance
    }

    /// A random item of a slice, `None` if it is empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.within(0..from.len() as u64) as usize).copied()
    }
}
