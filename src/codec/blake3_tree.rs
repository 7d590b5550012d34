//! BLAKE3 of a range whose parts are digested in any order, and on several threads.
//!
//! BLAKE3 is a binary tree over chunks of 1 KiB (the BLAKE3 paper, section 2.1). Its left subtrees have a power of two
//! chunks. A part begins and ends at chunks, and is digested as the largest subtrees that fit into it. [`root`] joins
//! those of all parts.

use blake3::hazmat::{ChainingValue, HasherExt, Mode};
use blake3::hazmat::{left_subtree_len, max_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use std::collections::BTreeMap;
use std::ops::Range;

/// The length of a chunk: all parts of a range begin at a multiple of it.
pub(crate) const CHUNK_BYTES: u64 = blake3::CHUNK_LEN as u64;

/// Bytes are digested in multiples of this: a processor with vectors of 512 bits digests 16 chunks at once.
const GROUP_BYTES: usize = 16 * blake3::CHUNK_LEN;

/// The subtrees of one range, by their offsets in it.
pub(crate) type Subtrees = BTreeMap<u64, Subtree>;

/// A subtree, or the whole range.
#[derive(Debug)]
pub(crate) struct Subtree {
    byte_length: u64,
    /// The chaining value; of a whole range, its digest.
    value: [u8; 32],
}

/// Digests one part of a range.
#[derive(Debug)]
pub(crate) struct PartHasher {
    /// The offset in the range of the first byte that is not digested yet.
    at: u64,
    end: u64,
    /// The length of the whole range.
    whole: u64,
    /// Bytes from `at` on that do not fill a group.
    waiting: Vec<u8>,
    /// The subtree that is being digested, its offset and its length.
    subtree: Option<(Box<blake3::Hasher>, u64, u64)>,
    subtrees: Subtrees,
}

impl PartHasher {
    /// `part` are offsets in a range of `whole` bytes: multiples of [`CHUNK_BYTES`], or the end of the range.
    pub(crate) fn new(part: Range<u64>, whole: u64) -> Self {
        let Range { start: at, end } = part;
        PartHasher { at, end, whole, waiting: Vec::new(), subtree: None, subtrees: Subtrees::new() }
    }

    /// Adds the next bytes of the part.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        let in_group = (self.at % GROUP_BYTES as u64) as usize + self.waiting.len();
        if in_group > 0 {
            let (group, rest) = bytes.split_at((GROUP_BYTES - in_group).min(bytes.len()));
            self.waiting.extend(group);
            if in_group + group.len() < GROUP_BYTES {
                return;
            }
            let mut waiting = std::mem::take(&mut self.waiting);
            self.digest(&waiting);
            waiting.clear();
            (self.waiting, bytes) = (waiting, rest);
        }
        let (groups, rest) = bytes.split_at(bytes.len() - bytes.len() % GROUP_BYTES);
        self.digest(groups);
        self.waiting.extend(rest);
    }

    /// The subtrees, after the last byte of the part.
    pub(crate) fn finish(mut self) -> Subtrees {
        let waiting = std::mem::take(&mut self.waiting);
        self.digest(&waiting);
        self.subtrees
    }

    fn digest(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (mut hasher, start, byte_length) = self.subtree.take().unwrap_or_else(|| self.next_subtree());
            let left = (start + byte_length).saturating_sub(self.at);
            let (now, later) = bytes.split_at(left.min(bytes.len() as u64) as usize);
            hasher.update(now);
            self.at += now.len() as u64;
            bytes = later;
            if now.len() as u64 == left {
                let is_whole = byte_length == self.whole;
                let value = if is_whole { *hasher.finalize().as_bytes() } else { hasher.finalize_non_root() };
                self.subtrees.insert(start, Subtree { byte_length, value });
            } else {
                self.subtree = Some((hasher, start, byte_length));
            }
        }
    }

    /// The longest subtree at `at`.
    fn next_subtree(&self) -> (Box<blake3::Hasher>, u64, u64) {
        let left = self.end.saturating_sub(self.at).max(1);
        let longest = max_subtree_len(self.at).unwrap_or(u64::MAX);
        let is_last = self.end == self.whole && left <= longest;
        let byte_length = if is_last { left } else { longest.min(1 << left.ilog2()) };
        let mut hasher = Box::new(blake3::Hasher::new());
        hasher.set_input_offset(self.at);
        (hasher, self.at, byte_length)
    }
}

/// The digest of a range of `byte_length` bytes; `None` if subtrees are missing.
pub(crate) fn root(subtrees: &Subtrees, byte_length: u64) -> Option<[u8; 32]> {
    if let Some(whole) = subtrees.get(&0).filter(|first| first.byte_length == byte_length) {
        return Some(whole.value);
    }
    let middle = middle(&(0..byte_length))?;
    let (left, right) = (value(subtrees, 0..middle)?, value(subtrees, middle..byte_length)?);
    Some(merge_subtrees_root(&left, &right, Mode::Hash).into())
}

fn value(subtrees: &Subtrees, range: Range<u64>) -> Option<ChainingValue> {
    if let Some(subtree) = subtrees.get(&range.start).filter(|it| it.byte_length == range.end - range.start) {
        return Some(subtree.value);
    }
    let middle = middle(&range)?;
    let (left, right) = (value(subtrees, range.start..middle)?, value(subtrees, middle..range.end)?);
    Some(merge_subtrees_non_root(&left, &right, Mode::Hash))
}

/// Where the right subtree of a subtree begins; `None` for a chunk.
fn middle(range: &Range<u64>) -> Option<u64> {
    let byte_length = range.end - range.start;
    (byte_length > CHUNK_BYTES).then(|| range.start + left_subtree_len(byte_length))
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONGEST: usize = 70 * blake3::CHUNK_LEN;

    proptest! {
        #[test]
        fn equals_the_digest_of_the_whole_range(
            length in 1..LONGEST,
            chunks in proptest::collection::vec(0..LONGEST / blake3::CHUNK_LEN, 0..6),
            piece_bytes in 1..40_000_usize,
        ) {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 / 7) as u8).collect();
            let mut cuts: Vec<usize> = chunks.iter().map(|chunk| chunk * blake3::CHUNK_LEN).collect();
            cuts.extend([0, length]);
            cuts.retain(|cut| *cut <= length);
            cuts.sort_unstable();
            cuts.dedup();

            let mut subtrees = Subtrees::new();
            for part in cuts.windows(2).rev() {
                let mut hasher = PartHasher::new(part[0] as u64..part[1] as u64, length as u64);
                bytes[part[0]..part[1]].chunks(piece_bytes).for_each(|piece| hasher.update(piece));
                subtrees.extend(hasher.finish());
            }
            prop_assert_eq!(root(&subtrees, length as u64), Some(*blake3::hash(&bytes).as_bytes()));

            let last = cuts[cuts.len() - 2] as u64;
            subtrees.retain(|start, _| *start < last);
            prop_assert_eq!(root(&subtrees, length as u64), None, "without the last part");
        }
    }

    #[test]
    fn a_part_is_digested_as_the_largest_subtrees_that_fit() {
        let lengths = |part: Range<u64>, whole| {
            let mut hasher = PartHasher::new(part.start * CHUNK_BYTES..part.end * CHUNK_BYTES, whole * CHUNK_BYTES);
            (part.start..part.end).for_each(|_| hasher.update(&[0; blake3::CHUNK_LEN]));
            hasher.finish().into_values().map(|subtree| subtree.byte_length / CHUNK_BYTES).collect::<Vec<_>>()
        };
        assert_eq!(lengths(5..21, 64), [1, 2, 8, 4, 1]);
        assert_eq!(lengths(0..21, 21), [21]);
        assert_eq!(lengths(16..21, 21), [5]);
    }
}
