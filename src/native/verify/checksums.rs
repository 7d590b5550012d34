//! The checksums of a file: which digests are computed in parts, and the comparison of all.

use super::sums::{self, Computed};
use super::task::{Task, Work};
use crate::codec::digest::{self, Hasher};
use crate::error::Result;
use crate::format::Expected;
use crate::index::{Algorithm, Component, Digest, Encoding, Tensor};
use crate::native::file::TensorFile;
use crate::trust::Coverage;
use std::ops::Range;

impl TensorFile {
    /// Whether a CRC-32 of the file, or of a range of it, is stated.
    pub(super) fn has_crc32(&self) -> bool {
        let mut stated = self.plan.checksums().iter().map(|checksum| &checksum.stated);
        stated.any(|stated| matches!(stated, Expected::Crc32At(_) | Expected::Digest(Digest::Crc32(_))))
    }

    /// The ranges with BLAKE3 digests that are computed in parts, in the order of the file.
    pub(super) fn blake3_ranges<'a>(&self, components: impl Iterator<Item = &'a Component>) -> Vec<Range<u64>> {
        let of_file = self.digested_ranges().filter(|(over, stated)| self.is_in_parts(over, *stated));
        let of_components = components.filter(|component| is_digested_in_parts(component));
        let mut ranges: Vec<_> =
            of_file.map(|(over, _)| over).chain(of_components.map(|component| component.range.clone())).collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup();
        sums::limit_depth(&mut ranges);
        ranges
    }

    /// A task for each digest that cannot be computed in parts.
    pub(super) fn digest_tasks(&self, shard: usize) -> impl Iterator<Item = Task<'_>> {
        let is_whole =
            |over: &Range<u64>, stated| !matches!(stated, Digest::Crc32(_)) && !self.is_in_parts(over, stated);
        let ranges = self.digested_ranges().filter(move |(over, stated)| is_whole(over, *stated));
        ranges.map(move |(range, stated)| Task::new(shard, self, range, Work::Digest(stated)))
    }

    fn digested_ranges(&self) -> impl Iterator<Item = (Range<u64>, Digest)> {
        self.plan.checksums().iter().filter_map(|checksum| match checksum.stated {
            Expected::Digest(digest) => Some((checksum.over.clone(), digest)),
            Expected::Crc32At(_) => None,
        })
    }

    /// Not a range beyond the end of the file: its own task fails.
    fn is_in_parts(&self, over: &Range<u64>, stated: Digest) -> bool {
        matches!(stated, Digest::Blake3(_)) && !over.is_empty() && over.end <= self.bytes.byte_length()
    }

    /// Compares the digests of components that were computed in parts.
    pub(super) fn compare_components<'a>(
        &self,
        components: impl Iterator<Item = (&'a Tensor, &'a Component)>,
        computed: &Computed,
    ) -> Result<()> {
        for (tensor, component) in components {
            if let Some(stated) = component.digest.filter(|_| is_digested_in_parts(component)) {
                let compared = self.compare(&component.range, stated.digest, computed);
                compared.map_err(|error| error.in_tensor(&tensor.name))?;
            }
        }
        Ok(())
    }

    /// Compares all checksums of ranges of the file, and returns what they cover.
    pub(super) fn compare_checksums(&self, computed: &Computed) -> Result<Coverage> {
        let matched = self.plan.compare(&self.footer_crc32s()?, |over, like| self.computed(over, like, computed))?;
        Ok(Coverage::of(matched, Some(self.bytes.file_length())))
    }

    /// The CRC-32 values that the file states.
    pub(in crate::native) fn footer_crc32s(&self) -> Result<Vec<u32>> {
        let read = |at: u64| {
            let bytes = self.bytes.storage.read(&(at..at.saturating_add(4)))?;
            Ok((&*bytes).try_into().map(u32::from_le_bytes).unwrap_or_default())
        };
        self.plan.footers().map(read).collect()
    }

    fn compare(&self, over: &Range<u64>, stated: Digest, computed: &Computed) -> Result<Algorithm> {
        digest::compare(self.computed(over, stated, computed)?, stated).map_err(|error| error.at(over.clone()))
    }

    fn computed(&self, over: &Range<u64>, stated: Digest, computed: &Computed) -> Result<Digest> {
        computed.digest(over, stated).map_or_else(|| self.digest(over, stated), Ok)
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

/// Whether the component's digest is one of [`TensorFile::blake3_ranges`].
pub(super) fn is_digested_in_parts(component: &Component) -> bool {
    let is_blake3 = component.digest.is_some_and(|stated| matches!(stated.digest, Digest::Blake3(_)));
    is_blake3 && component.encoding == Encoding::Raw && !component.range.is_empty()
}
