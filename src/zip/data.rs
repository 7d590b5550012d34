//! Where the data of an entry begins: behind its local header, whose length only the header itself states.
//!
//! To read the header of each of several hundred tensors takes several hundred requests, if the tensors are large.
//! [`Entry::aligned_data`] therefore computes the offset for archives of PyTorch, without a request: they have no gaps
//! between entries, and the shortest local header that aligns the data. Both the end of the header before and the start
//! of the header after then give the same offset, or it is not used. It does not depend on what is known of the file,
//! so that an archive is read equally in all ways. The checksum of the entry verifies it when all of it is read.

use super::LOCAL_HEADER;
use super::directory::{Entry, LOCAL_BYTES};
use crate::error::{Result, malformed};
use crate::fields::Fields;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The length of the header of an extra field. PyTorch writes one field in each local header, which may be empty.
const EXTRA_HEADER_BYTES: u64 = 4;

/// Lengths and offsets from here on are in ZIP64 fields.
const ZIP64_BYTES: u64 = u32::MAX as u64;

impl Entry {
    /// The beginning of the entry: its local header, and about `content` bytes of its data.
    pub(crate) fn head(&self, content: u64) -> Range<u64> {
        // Local headers may have other extra fields than the directory. NumPy's have 20 bytes, PyTorch's up to 88.
        const USUAL_EXTRA_BYTES: u64 = 32;
        let length = LOCAL_BYTES + self.name.len() as u64 + USUAL_EXTRA_BYTES;
        self.offset..self.offset.saturating_add(length.saturating_add(content)).min(self.limit)
    }

    /// The range of the stored bytes in the file, from the local header.
    ///
    /// # Errors
    /// `FORMAT` if the local header is invalid, is of another entry, or the data overlaps the next entry.
    pub(crate) fn data(&self, window: &Window) -> Result<Range<u64>, Stop> {
        let fixed_end = self.offset + LOCAL_BYTES; // no overflow: entries end before the directory
        let name_end = fixed_end + self.name.len() as u64;
        let header = self.offset..name_end.min(self.limit);
        let mut fields = Fields::new(window.get(header.clone())?, self.offset, "a local header of the archive");
        let signature: [u8; 4] = fields.array()?;
        fields.u32()?; // version and flags
        let method = fields.u16()?;
        fields.take(16)?; // time, checksum and lengths
        let (name_length, extra_length) = (fields.u16()?, fields.u16()?);
        let is_same =
            usize::from(name_length) == self.name.len() && fields.take(self.name.len())? == self.name.as_bytes();
        if signature != LOCAL_HEADER || method != self.method || !is_same {
            let what = format!("the entry {} of the archive has no local header of its own", self.shown_name());
            return Err(malformed(what).at(header).into());
        }
        let start = name_end + u64::from(extra_length);
        let data = start..start.saturating_add(self.stored_length);
        if data.end > self.limit {
            let what = format!("the data of the entry {} reaches into what is at {}", self.shown_name(), self.limit);
            return Err(malformed(what).at(data).into());
        }
        Ok(data)
    }

    /// The range of the stored bytes of an entry of PyTorch, whose data is aligned; `None` if the entry has not the
    /// layout that PyTorch gives it, so that its local header must be read.
    pub(crate) fn aligned_data(&self, alignment: u64) -> Option<Range<u64>> {
        let Entry { byte_length, offset, stored_length, limit, .. } = *self;
        let zip64_bytes = match (byte_length >= ZIP64_BYTES, offset >= ZIP64_BYTES) {
            (false, false) => 0,
            (true, false) => EXTRA_HEADER_BYTES + 16,
            (false, true) => EXTRA_HEADER_BYTES + 8,
            (true, true) => EXTRA_HEADER_BYTES + 24,
        };
        let header = LOCAL_BYTES + self.name.len() as u64 + zip64_bytes + EXTRA_HEADER_BYTES;
        let start = offset.checked_add(header)?.checked_next_multiple_of(alignment)?;
        let end = start.checked_add(stored_length)?;
        let descriptor = match zip64_bytes {
            _ if !self.has_descriptor() => 0,
            0 => 16,
            _ => 24,
        };
        (end.checked_add(descriptor)? == limit).then_some(start..end)
    }
}
