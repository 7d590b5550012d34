//! Checksums of ranges of a file: what is computed for them on all processors, and the comparison.

use super::task::{Task, Work};
use crate::codec::blake3_tree::{self, SUBTREE_BYTES};
use crate::codec::crc32::Crc32Parts;
use crate::codec::digest::{self, Hasher};
use crate::error::Result;
use crate::format::Stated;
use crate::index::Digest;
use crate::native::file::TensorFile;
use blake3::hazmat::ChainingValue;
use std::collections::BTreeMap;
use std::ops::Range;

/// What was computed of one file.
#[derive(Default)]
pub(super) struct Computed {
    pub(super) crc32s: Crc32Parts,
    /// Digests of ranges.
    pub(super) digests: Vec<(Range<u64>, Digest)>,
    /// The subtrees of ranges with BLAKE3 digests: the range by its bounds, and the subtree by its start.
    pub(super) subtrees: BTreeMap<(u64, u64), BTreeMap<u64, ChainingValue>>,
}

impl Computed {
    /// The digest of a range; `None` if it was not computed.
    fn of(&self, range: &Range<u64>, stated: Digest) -> Option<Digest> {
        let is_same = |digest: &Digest| std::mem::discriminant(digest) == std::mem::discriminant(&stated);
        let tree = || {
            let subtrees =
                self.subtrees.get(&(range.start, range.end)).filter(|_| matches!(stated, Digest::Blake3(_)))?;
            let subtrees: Vec<_> = subtrees.values().copied().collect();
            blake3_tree::root(&subtrees).map(Digest::Blake3)
        };
        match stated {
            Digest::Crc32(_) => self.crc32s.over(range).map(Digest::Crc32),
            _ => {
                let known = self.digests.iter().find(|(known, digest)| known == range && is_same(digest));
                known.map(|(_, digest)| *digest).or_else(tree)
            }
        }
    }
}

impl TensorFile {
    /// Whether a CRC-32 of the file, or of a range of it, is stated.
    pub(super) fn has_crc32(&self) -> bool {
        let mut stated = self.checksums.iter().map(|checksum| &checksum.stated);
        stated.any(|stated| matches!(stated, Stated::Crc32At(_) | Stated::Digest(Digest::Crc32(_))))
            || matches!(self.stated_digest, Some(Digest::Crc32(_)))
    }

    /// The tasks for all other checksums. BLAKE3 of a long range is divided into subtrees.
    pub(super) fn digest_tasks(&self, shard: usize) -> Vec<Task<'_>> {
        let ranges = self.checksums.iter().filter_map(|checksum| match checksum.stated {
            Stated::Digest(digest) => Some((checksum.over.clone(), digest)),
            Stated::Crc32At(_) => None,
        });
        let byte_length = self.bytes.byte_length();
        let ranges = ranges.chain(self.stated_digest.map(|digest| (0..byte_length, digest)));
        // A range beyond the end of the file is one task, which fails.
        let is_long =
            |over: &Range<u64>| over.end <= byte_length && over.end.saturating_sub(over.start) > SUBTREE_BYTES;
        let tasks = ranges.flat_map(|(over, stated)| match stated {
            Digest::Crc32(_) => Vec::new(),
            Digest::Blake3(_) if is_long(&over) => {
                let starts = (over.start..over.end).step_by(SUBTREE_BYTES as usize);
                let cut = |start: u64| (start..over.end.min(start + SUBTREE_BYTES), Work::Subtree(over.clone()));
                starts.map(cut).collect()
            }
            _ => vec![(over, Work::Digest(stated))],
        });
        tasks.map(|(range, work)| Task { shard, file: self, range, work }).collect()
    }

    /// Compares all checksums, and returns their algorithms.
    pub(super) fn compare_checksums(&self, computed: &Computed) -> Result<Vec<&'static str>> {
        let mut algorithms = Vec::new();
        let mut footers = Vec::new();
        for checksum in &self.checksums {
            let stated = match checksum.stated {
                Stated::Digest(digest) => digest,
                Stated::Crc32At(at) => {
                    let bytes = self.bytes.storage.read(&(at..at.saturating_add(4)))?;
                    let crc32 = Digest::Crc32((&*bytes).try_into().map(u32::from_le_bytes).unwrap_or_default());
                    footers.push(crc32);
                    crc32
                }
            };
            algorithms.push(self.compare(&checksum.over, stated, computed, &checksum.by)?);
        }
        // APR's specification does not define whether the manifest's CRC covers the file or the bytes before its
        // footer.
        if let Some(stated) = self.stated_digest.filter(|stated| !footers.contains(stated)) {
            algorithms.push(self.compare(&(0..self.bytes.byte_length()), stated, computed, "the manifest")?);
        }
        Ok(algorithms)
    }

    fn compare(&self, over: &Range<u64>, stated: Digest, computed: &Computed, by: &str) -> Result<&'static str> {
        let digest = match computed.of(over, stated) {
            Some(digest) => digest,
            None => self.digest(over, stated)?,
        };
        digest::compare(digest, stated).map_err(|mut error| {
            error.what = format!("{}, says {by}", error.what);
            error.at(over.clone())
        })
    }

    /// The digest of a range that no task has computed, such as a checksum over a part of a component.
    fn digest(&self, range: &Range<u64>, stated: Digest) -> Result<Digest> {
        let mut hasher = Hasher::new(stated);
        self.bytes.storage.read_pieces(range, &mut |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(hasher.finish())
    }
}
