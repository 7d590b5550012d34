//! The sections of an APR v2 file, which may lie in any order: the header says where they are.

use super::head::check_head_length;
use crate::error::{Result, malformed};
use crate::index::Tensor;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The largest gap between metadata and index that is read with them, instead of with a request of its own.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// The ranges of the file that contain no tensors.
#[derive(Debug)]
pub(super) struct Sections {
    header: Range<u64>,
    pub(super) metadata: Range<u64>,
    pub(super) index: Range<u64>,
}

impl Sections {
    /// Checks that the sections do not overlap, and that metadata and index are not too large.
    ///
    /// # Errors
    /// `FORMAT`, `LIMIT`.
    pub(super) fn new(header_bytes: u64, metadata: Range<u64>, index: Range<u64>) -> Result<Sections> {
        let header = 0..header_bytes;
        let sections = Sections { header, metadata, index };
        for (name, range) in [("metadata", &sections.metadata), ("index", &sections.index)] {
            if let Some((other, other_range)) = sections.overlapping(range).find(|(other, _)| *other != name) {
                let (Range { start, end }, other_end) = (range, other_range.end);
                let what = format!(
                    "the {name} (bytes {start} to {end}) overlaps the {other} (bytes {} to {other_end})",
                    other_range.start
                );
                return Err(malformed(what).at(0..header_bytes));
            }
        }
        check_head_length(sections.byte_length())?;
        Ok(sections)
    }

    /// The length of metadata and index in bytes.
    pub(super) fn byte_length(&self) -> u64 {
        let length = |range: &Range<u64>| range.end - range.start;
        length(&self.metadata).saturating_add(length(&self.index))
    }

    /// Requests metadata and index, together if they are close to each other.
    pub(super) fn want(&self, window: &Window) -> Result<(), Stop> {
        let Sections { metadata, index, .. } = self;
        let both = metadata.start.min(index.start)..metadata.end.max(index.end);
        if both.end - both.start <= self.byte_length().saturating_add(MAX_GAP_BYTES) {
            window.get(both)?;
        }
        Ok(())
    }

    /// Checks that no tensor overlaps a section.
    ///
    /// # Errors
    /// `FORMAT`.
    pub(super) fn check_tensors(&self, tensors: &[Tensor]) -> Result<()> {
        for tensor in tensors {
            for range in tensor.components.iter().map(|component| &component.range) {
                if let Some((name, section)) = self.overlapping(range).next() {
                    let what = format!("its bytes overlap the {name} (bytes {} to {})", section.start, section.end);
                    return Err(malformed(what).at(range.clone()).in_tensor(&tensor.name));
                }
            }
        }
        Ok(())
    }

    /// The sections that have bytes in common with `range`.
    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (&'static str, &Range<u64>)> {
        let sections = [("header", &self.header), ("metadata", &self.metadata), ("index", &self.index)];
        let (start, end) = (range.start, range.end);
        sections.into_iter().filter(move |(_, section)| section.start.max(start) < section.end.min(end))
    }
}
