//! A compact index to find names and duplicates in a list of many names.

use crate::sorting::{SortKey, sort};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;

/// The indices of a list of names, sorted by the hash of each name, and by a SHA-256 digest where hashes are equal.
/// Sorting by hash takes a fifth of the time of sorting by name. Names with equal hashes can be forged; those with
/// equal digests cannot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NameIndex {
    /// The hash in the upper 32 bits, the index in the lower 32 bits.
    sorted: Vec<u64>,
}

impl NameIndex {
    /// `name_at` returns the name at each index below `count`, which must be less than 2^32.
    pub(crate) fn new<'a>(count: usize, name_at: &dyn Fn(usize) -> &'a str) -> Self {
        let entry = |at: usize| u64::from(hash(name_at(at))) << 32 | at as u64;
        let mut sorted: Vec<_> = (0..count).map(entry).collect();
        sorted.sort_unstable();
        for same in sorted.chunk_by_mut(|one, next| one >> 32 == next >> 32).filter(|same| same.len() > 1) {
            sort(same, |entry| digest(name_at(index_of(*entry))));
        }
        NameIndex { sorted }
    }

    /// The number of names.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// A name that occurs more than once, if there is one.
    pub(crate) fn duplicate<'a>(&self, name_at: &dyn Fn(usize) -> &'a str) -> Option<&'a str> {
        let same_hash = self.sorted.windows(2).filter_map(|pair| match pair {
            [one, next] if one >> 32 == next >> 32 => Some((name_at(index_of(*one)), name_at(index_of(*next)))),
            _ => None,
        });
        { same_hash }.find_map(|(one, next)| (one == next).then_some(one))
    }

    /// The index of a name.
    pub(crate) fn find<'a>(&self, name: &str, name_at: &dyn Fn(usize) -> &'a str) -> Option<usize> {
        let wanted = u64::from(hash(name));
        let compare = |entry: &u64| match (entry >> 32).cmp(&wanted) {
            Ordering::Equal => match name_at(index_of(*entry)) {
                found if found == name => Ordering::Equal,
                found => digest(found).cmp(&digest(name)),
            },
            order => order,
        };
        let found = self.sorted.binary_search_by(compare).ok()?;
        self.sorted.get(found).map(|entry| index_of(*entry))
    }
}

fn index_of(entry: u64) -> usize {
    (entry & u64::from(u32::MAX)) as usize
}

/// Part of a SHA-256 digest.
fn digest(name: &str) -> SortKey {
    let digest = Sha256::digest(name.as_bytes());
    let word = |at: usize| digest.as_chunks::<8>().0.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    (word(0), word(1), word(2))
}

/// A hash that is fast for short names. It is not collision-resistant: collisions only cost time.
fn hash(name: &str) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15; // odd, and half of its bits are set
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let rest = rest.iter().fold(name.len() as u64, |word, byte| word << 8 | u64::from(*byte));
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mixed = words.chain([rest]).fold(0u64, |hash, word| (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR));
    (mixed >> 32) as u32
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn distinguishes_names_with_equal_hashes() {
        let names: Vec<String> =
            (0..200_000u64).map(|i| format!("{:x}", i.wrapping_mul(0xd6e8_feb8_6659_fd93))).collect();
        let at = &|at: usize| names[at].as_str();
        let mut hashes: Vec<_> = names.iter().map(|name| hash(name)).collect();
        hashes.sort_unstable();
        assert!(hashes.windows(2).any(|pair| pair[0] == pair[1]), "the test needs a collision");
        let sorted = NameIndex::new(names.len(), at);
        assert_eq!(sorted.duplicate(at), None);
        assert!(names.iter().enumerate().all(|(i, name)| sorted.find(name, at) == Some(i)));
    }

    proptest! {
        #[test]
        fn finds_exactly_the_names_in_the_list(
            names in proptest::collection::vec("[ab]{0,3}|.{0,20}", 0..40), other: String,
        ) {
            let at = &|at: usize| names[at].as_str();
            let sorted = NameIndex::new(names.len(), at);
            for name in names.iter().chain([&other]) {
                prop_assert_eq!(sorted.find(name, at).map(at), names.contains(name).then_some(name.as_str()));
            }
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(sorted.duplicate(at).is_some(), once.len() < names.len());
        }
    }
}
