//! Checksums that are computed in parts, while the tasks read the bytes: CRC-32, and BLAKE3 of raw bytes. Several may
//! cover the same bytes, as the digests of an AERO file: those of its tensors, and the one of all of them.

use crate::codec::blake3_tree::{self, CHUNK_BYTES, PartHasher, Subtrees};
use crate::codec::crc32::Crc32Parts;
use crate::digest::Digest;
use std::collections::BTreeMap;
use std::ops::Range;

/// The maximum number of BLAKE3 digests of the same byte that are computed at once. AERO has two; a hostile file may
/// have thousands, each of which takes memory while it is computed.
const MAX_DEPTH: usize = 4;

/// What was computed of one file.
#[derive(Default)]
pub(super) struct Computed {
    pub(super) crc32s: Crc32Parts,
    /// Digests of ranges.
    pub(super) digests: Vec<(Range<u64>, Digest)>,
    /// Maps the bounds of ranges with BLAKE3 digests to what is known of their trees.
    trees: BTreeMap<(u64, u64), Subtrees>,
}

impl Computed {
    /// The digest of a range with the algorithm of `stated`; `None` if it was not computed.
    pub(super) fn digest(&self, range: &Range<u64>, stated: Digest) -> Option<Digest> {
        let is_same = |digest: &Digest| std::mem::discriminant(digest) == std::mem::discriminant(&stated);
        let tree = || {
            let subtrees = self.trees.get(&(range.start, range.end)).filter(|_| matches!(stated, Digest::Blake3(_)))?;
            blake3_tree::root(subtrees, range.end - range.start).map(Digest::Blake3)
        };
        match stated {
            Digest::Crc32(_) => self.crc32s.over(range).map(Digest::Crc32),
            _ => {
                let known = self.digests.iter().find(|(known, digest)| known == range && is_same(digest));
                known.map(|(_, digest)| *digest).or_else(tree)
            }
        }
    }

    /// Adds what was computed of the parts of ranges with BLAKE3 digests.
    pub(super) fn add_parts(&mut self, parts: impl IntoIterator<Item = (Range<u64>, Subtrees)>) {
        for (over, subtrees) in parts {
            self.trees.entry((over.start, over.end)).or_default().extend(subtrees);
        }
    }
}

/// Removes ranges, which are sorted by their starts, so that no byte is in more than [`MAX_DEPTH`]. The digests of
/// removed ranges are computed one after another when they are compared.
pub(super) fn limit_depth(ranges: &mut Vec<Range<u64>>) {
    let mut open_ends = Vec::new();
    ranges.retain(|range| {
        open_ends.retain(|end| *end > range.start);
        let fits = open_ends.len() < MAX_DEPTH;
        open_ends.extend(fits.then_some(range.end));
        fits
    });
}

/// A part of a range with a BLAKE3 digest.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The whole range.
    pub(super) over: Range<u64>,
    /// The bytes of the part.
    pub(super) bytes: Range<u64>,
}

impl Part {
    /// All chunks of the range that begin in `read`. The last one may end after it. `None` if there are none.
    pub(super) fn in_read(over: &Range<u64>, read: &Range<u64>) -> Option<Self> {
        let next_chunk = |at: u64| {
            let inside = at.clamp(over.start, over.end) - over.start;
            inside
                .checked_next_multiple_of(CHUNK_BYTES)
                .map_or(over.end, |inside| over.end.min(over.start.saturating_add(inside)))
        };
        let bytes = next_chunk(read.start)..next_chunk(read.end);
        (!bytes.is_empty()).then(|| Part { over: over.clone(), bytes })
    }
}

/// Digests parts whose bytes are read in order.
pub(super) struct PartsHasher<'a> {
    /// The parts that have not begun, in the order of their first bytes.
    waiting: std::iter::Peekable<std::slice::Iter<'a, Part>>,
    begun: Vec<(&'a Part, PartHasher)>,
    ended: Vec<(Range<u64>, Subtrees)>,
    /// The offset of the next bytes in the file.
    at: u64,
}

impl<'a> PartsHasher<'a> {
    pub(super) fn new(parts: &'a [Part], at: u64) -> Self {
        PartsHasher { waiting: parts.iter().peekable(), begun: Vec::new(), ended: Vec::new(), at }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len() as u64;
        let continuing = std::mem::take(&mut self.begun);
        for (part, hasher) in continuing {
            self.digest(part, hasher, bytes);
        }
        while let Some(part) = self.waiting.next_if(|part| part.bytes.start < end) {
            let inside = |at: u64| at - part.over.start;
            let range = inside(part.bytes.start)..inside(part.bytes.end);
            self.digest(part, PartHasher::new(range, inside(part.over.end)), bytes);
        }
        self.at = end;
    }

    /// The whole range of each part, and the part's subtrees.
    pub(super) fn finish(self) -> Vec<(Range<u64>, Subtrees)> {
        self.ended
    }

    fn digest(&mut self, part: &'a Part, mut hasher: PartHasher, bytes: &[u8]) {
        let inside = |at: u64| usize::try_from(at.saturating_sub(self.at)).unwrap_or(usize::MAX).min(bytes.len());
        hasher.update(bytes.get(inside(part.bytes.start)..inside(part.bytes.end)).unwrap_or_default());
        if part.bytes.end <= self.at + bytes.len() as u64 {
            self.ended.push((part.over.clone(), hasher.finish()));
        } else {
            self.begun.push((part, hasher));
        }
    }
}
