//! BLAKE3 of a long range whose parts are digested in any order, and on several threads.
//!
//! BLAKE3 is a binary tree over chunks of 1 KiB (the BLAKE3 paper, section 2.1). Its left subtrees are complete, so
//! that a range is divided into subtrees of a power of two bytes, of which only the last may be shorter.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// The length of a subtree, a power of two: 16 MiB.
pub(crate) const SUBTREE_BYTES: u64 = 16 << 20;

/// Digests one subtree of a range of more than [`SUBTREE_BYTES`].
#[derive(Debug)]
pub(crate) struct Subtree(Box<blake3::Hasher>);

impl Subtree {
    /// Starts at an offset in the range, a multiple of [`SUBTREE_BYTES`].
    pub(crate) fn at(offset: u64) -> Self {
        let mut hasher = Box::new(blake3::Hasher::new());
        hasher.set_input_offset(offset);
        Subtree(hasher)
    }

    /// Adds the next bytes: in total [`SUBTREE_BYTES`], or fewer at the end of the range.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The value from which [`root`] computes the digest.
    pub(crate) fn finish(self) -> ChainingValue {
        self.0.finalize_non_root()
    }
}

/// The digest of a range of at least two subtrees, whose values are given in order; `None` for fewer.
pub(crate) fn root(subtrees: &[ChainingValue]) -> Option<[u8; 32]> {
    let (left, right) = halves(subtrees)?;
    Some(merge_subtrees_root(&value(left)?, &value(right)?, Mode::Hash).into())
}

fn value(subtrees: &[ChainingValue]) -> Option<ChainingValue> {
    match subtrees {
        [] => None,
        [one] => Some(*one),
        several => {
            let (left, right) = halves(several)?;
            Some(merge_subtrees_non_root(&value(left)?, &value(right)?, Mode::Hash))
        }
    }
}

/// Splits off the largest power of two that leaves something for the right half.
fn halves(subtrees: &[ChainingValue]) -> Option<(&[ChainingValue], &[ChainingValue])> {
    subtrees.split_at_checked(subtrees.len().checked_sub(1).filter(|rest| *rest > 0).map(|rest| 1 << rest.ilog2())?)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn equals_the_digest_of_the_whole_range() {
        let bytes: Vec<u8> = (0..5 * SUBTREE_BYTES + 1).map(|at| (at * 31 / 7) as u8).collect();
        for length in
            [1, 2, 3, 4, 5].map(|count| count * SUBTREE_BYTES).into_iter().flat_map(|end| [end - 1, end, end + 1])
        {
            let range = &bytes[..length as usize];
            let digest = |(number, bytes): (usize, &[u8])| {
                let mut subtree = Subtree::at(number as u64 * SUBTREE_BYTES);
                bytes.chunks(100_000).for_each(|piece| subtree.update(piece));
                subtree.finish()
            };
            let subtrees: Vec<_> = range.chunks(SUBTREE_BYTES as usize).enumerate().map(digest).collect();
            let expected = (subtrees.len() > 1).then(|| *blake3::hash(range).as_bytes());
            assert_eq!(root(&subtrees), expected, "{length} bytes");
        }
    }
}
