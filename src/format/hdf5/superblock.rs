//! The superblock: sizes of numbers, and the root group.

use super::source::{Numbers, Source, Work};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::window::{Stop, Window};
use std::ops::Range;

/// The first bytes of an HDF5 file.
pub(super) const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// The length of the longest superblock that is read, without the entry of the root group.
const MAX_BYTES: u64 = 96;

/// What the superblock says.
pub(super) struct Superblock<'w> {
    pub(super) version: u8,
    /// The address of the object header of the root group.
    pub(super) root: u64,
    pub(super) source: Source<'w>,
}

impl<'w> Superblock<'w> {
    /// Reads the superblock of the HDF5 file in `range`.
    ///
    /// # Errors
    /// [`Stop::Need`] while bytes are missing; `UNSUPPORTED` for another version; `TRUNCATED` if the file is shorter
    /// than the superblock says.
    pub(super) fn read(window: &'w Window<'w>, range: &Range<u64>, work: &'w Work) -> Result<Self, Stop> {
        let bytes = window.get(range.start..range.start.saturating_add(MAX_BYTES).min(range.end))?;
        let (base, end) = (range.start, range.end);
        let mut source = Source { window, work, base, end, offset_bytes: 8, length_bytes: 8 };
        let mut fields = source.fields(bytes);
        fields.signature(&SIGNATURE)?;
        let version = fields.u8()?;
        (source.offset_bytes, source.length_bytes) = match version {
            0 | 1 => {
                fields.take(4)?;
                let sizes = (fields.u8()?, fields.u8()?);
                fields.take(if version == 0 { 9 } else { 13 })?; // of groups, and flags
                (usize::from(sizes.0), usize::from(sizes.1))
            }
            2 | 3 => {
                let sizes = (fields.u8()?, fields.u8()?);
                fields.take(1)?; // flags
                (usize::from(sizes.0), usize::from(sizes.1))
            }
            _ => {
                let what = format!("the superblock has version {version}; weightstream reads 0 to 3");
                return Err(Error::new(ErrorKind::Unsupported, what).at(8..9).into());
            }
        };
        if ![2, 4, 8].contains(&source.offset_bytes) || ![2, 4, 8].contains(&source.length_bytes) {
            let what = format!("addresses have {} bytes, and lengths {}", source.offset_bytes, source.length_bytes);
            return Err(malformed(what).into());
        }
        let mut fields = source.fields(fields.rest());
        let (end_of_file, root) = addresses(&mut fields, version)?;
        source.base = source.base.saturating_add(end_of_file.0);
        source.range(0, end_of_file.1)?;
        Ok(Superblock { version, root, source })
    }
}

/// The base address and the end of the file, and the address of the root group.
fn addresses(fields: &mut Numbers, version: u8) -> Result<((u64, u64), u64)> {
    let missing = |what: &str| malformed(format!("the superblock has no address of {what}"));
    let base = fields.address()?.unwrap_or(0);
    fields.address()?; // of free space, or of an extension
    let end = fields.address()?.ok_or_else(|| missing("the end of the file"))?;
    if version < 2 {
        fields.address()?; // of the driver
        fields.address()?; // the name of the root group
    }
    let root = fields.address()?.ok_or_else(|| missing("the root group"))?;
    Ok(((base, end.saturating_sub(base)), root))
}
