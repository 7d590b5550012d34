//! The storage of an open file: on disk, mapped into memory, or in memory.

#[cfg(native)]
use super::disk::DiskFile;
use super::file::FileBytes;
#[cfg(maps)]
use super::map::Map;
use crate::error::{Error, ErrorKind, Result};
use crate::index::saturating_sum;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The size of pieces of mapped bytes. The system reads the next piece in the background: large enough for a disk, and
/// small enough for processor caches.
const PIECE_BYTES: usize = 1 << 20;

/// The size of pieces of a file on disk, which fit into a processor's cache. A conversion writes pieces of the same
/// length at any offset of its output: with pieces of 128 KiB, this took a fifth longer.
#[cfg(native)]
const COPIED_PIECE_BYTES: usize = 512 << 10;

/// The bytes of one file.
#[derive(Debug)]
pub(super) enum Storage {
    /// Read on demand.
    #[cfg(native)]
    OnDisk(DiskFile),
    #[cfg(maps)]
    Mapped(Map),
    Memory(Arc<Vec<u8>>),
    /// Several files, whose bytes follow each other.
    Joined(Vec<Arc<FileBytes>>),
}

impl Storage {
    pub(super) fn byte_length(&self) -> u64 {
        match self {
            Storage::Joined(files) => saturating_sum(files.iter().map(|file| file.byte_length())),
            #[cfg(native)]
            Storage::OnDisk(file) => file.byte_length(),
            #[cfg(maps)]
            Storage::Mapped(map) => map.bytes().len() as u64,
            Storage::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Borrows all bytes; `None` for a file on disk and for several files.
    pub(super) fn in_memory(&self) -> Option<&[u8]> {
        match self {
            #[cfg(native)]
            Storage::OnDisk(_) => None,
            Storage::Joined(_) => None,
            #[cfg(maps)]
            Storage::Mapped(map) => Some(map.bytes()),
            Storage::Memory(bytes) => Some(bytes),
        }
    }

    /// Borrows the bytes of `range`; `None` for a file on disk, and for several files.
    ///
    /// # Errors
    /// `INTERNAL` for a range outside the file.
    pub(super) fn borrow(&self, range: &Range<u64>) -> Result<Option<&[u8]>> {
        let Some(all) = self.in_memory() else { return Ok(None) };
        let inside = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let bytes = inside.and_then(|(start, end)| all.get(start..end));
        bytes.map(Some).ok_or_else(|| outside(range))
    }

    /// Returns the bytes of `range`, borrowed or read from disk.
    ///
    /// # Errors
    /// `TRUNCATED` if the file became shorter since it was opened; `IO`; `LIMIT` if memory cannot be allocated.
    pub(super) fn read(&self, range: &Range<u64>) -> Result<Cow<'_, [u8]>> {
        match self {
            #[cfg(native)]
            Storage::OnDisk(file) => file.read(range).map(Cow::Owned),
            Storage::Joined(_) => {
                let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| too_long(range))?;
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(length).map_err(|_| too_long(range))?;
                self.read_pieces(range, &mut |piece| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                })?;
                Ok(Cow::Owned(bytes))
            }
            _ => self.borrow(range)?.map(Cow::Borrowed).ok_or_else(|| outside(range)),
        }
    }

    /// Copies the bytes at the offset `start` to all of `bytes`.
    ///
    /// # Errors
    /// As for [`Storage::read`].
    #[cfg(native)]
    pub(super) fn read_into(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        let range = start..start.saturating_add(bytes.len() as u64);
        match self {
            Storage::OnDisk(file) => return file.read_at(start, bytes),
            Storage::Joined(files) => {
                let mut rest = bytes;
                return each_file(files, &range, &mut |file, range| {
                    let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                    let (now, later) =
                        std::mem::take(&mut rest).split_at_mut_checked(length).ok_or_else(|| outside(&range))?;
                    rest = later;
                    file.storage.read_into(range.start, now)
                });
            }
            _ => {}
        }
        bytes.copy_from_slice(self.borrow(&range)?.ok_or_else(|| outside(&range))?);
        Ok(())
    }

    /// Calls `take` with the bytes of `range` in order, in pieces. Pieces of files on disk and of mapped files do not
    /// stay in memory.
    ///
    /// # Errors
    /// As for [`Storage::read`]; errors of `take`.
    pub(super) fn read_pieces(&self, range: &Range<u64>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            #[cfg(native)]
            Storage::OnDisk(file) => file.read_pieces(range, COPIED_PIECE_BYTES, take),
            Storage::Joined(files) => {
                each_file(files, range, &mut |file, range| file.storage.read_pieces(&range, take))
            }
            _ => {
                let bytes = self.borrow(range)?.ok_or_else(|| outside(range))?;
                let mut at = range.start..range.start;
                for piece in bytes.chunks(PIECE_BYTES) {
                    at = at.end..at.end + piece.len() as u64;
                    self.will_need(&(at.start..(at.end + PIECE_BYTES as u64).min(range.end)));
                    take(piece)?;
                    self.release(&at);
                }
                Ok(())
            }
        }
    }

    /// Advises the system to read these bytes in the background.
    pub(super) fn will_need(&self, range: &Range<u64>) {
        match self {
            #[cfg(maps)]
            Storage::Mapped(map) => map.will_need(range),
            Storage::Joined(files) => {
                let mut announce = |file: &FileBytes, range: Range<u64>| {
                    file.storage.will_need(&range);
                    Ok(())
                };
                each_file(files, range, &mut announce).ok(); // an announcement is only a hint
            }
            _ => _ = range,
        }
    }

    /// Releases the memory of these bytes.
    fn release(&self, range: &Range<u64>) {
        match self {
            #[cfg(maps)]
            Storage::Mapped(map) => map.release(range),
            _ => _ = range,
        }
    }
}

/// Calls `read` with each of the files that has bytes of `range`, and the range of these bytes in it. Errors name the
/// file.
///
/// # Errors
/// `INTERNAL` for a range outside the files; those of `read`.
fn each_file(
    files: &[Arc<FileBytes>],
    range: &Range<u64>,
    read: &mut dyn FnMut(&FileBytes, Range<u64>) -> Result<()>,
) -> Result<()> {
    let mut start = 0u64;
    for file in files {
        let end = start.saturating_add(file.byte_length());
        let (from, to) = (range.start.max(start), range.end.min(end));
        if from < to {
            read(file, from - start..to - start).map_err(|e| e.in_file(&file.name))?;
        }
        start = end;
    }
    if range.end > start { Err(outside(range)) } else { Ok(()) }
}

fn too_long(range: &Range<u64>) -> Error {
    Error::new(ErrorKind::Limit, "there is not enough memory for these bytes").at(range.clone())
}

fn outside(range: &Range<u64>) -> Error {
    Error::new(ErrorKind::Internal, "bytes outside the file were requested").at(range.clone())
}
