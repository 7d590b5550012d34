//! An append-only log of the cached pieces of one file.
//!
//! Only the time of the last use is overwritten. The bytes of a piece are written before its record. Every record and
//! every piece has a checksum, and each read of a piece verifies it. A crash or a failing disk can lose, truncate or
//! reorder the last writes, but a read never returns wrong bytes. A damaged piece counts as missing and is downloaded
//! again.

use super::PIECE_BYTES;
use super::extents::{Extents, Piece};
pub(crate) use super::record::Description;
use super::record::{self, HEAD_BYTES, Head, LAST_USED_AT, RECORD_BYTES};
use super::storage::Storage;
use crate::codec::crc32::checksum;
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// The log of one file.
#[derive(Debug)]
pub(crate) struct Log<S> {
    storage: S,
    /// `None` if the log is empty or unreadable.
    state: Option<State>,
    /// The bytes of the piece `checked`.
    scratch: Vec<u8>,
    /// The piece that was read last. One piece often holds many small tensors.
    checked: Option<Piece>,
}

#[derive(Debug)]
struct State {
    description: Description,
    generation: u64,
    extents: Extents,
    /// Position of the next record.
    end: u64,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The first bytes of the range, at least one.
    Bytes(&'a [u8]),
    /// The range starts with this gap.
    Missing(Range<u64>),
}

impl<S: Storage> Log<S> {
    /// Reads the description and the records. A log that is damaged or has another format version is treated as empty.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn open(storage: S) -> Result<Self> {
        let mut log = Log { storage, state: None, scratch: Vec::new(), checked: None };
        log.state = log.read_description()?;
        log.read_records()?;
        Ok(log)
    }

    /// The file in the log, if any.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.state.as_ref().map(|state| &state.description)
    }

    /// Distinguishes this log from earlier logs of the same name.
    #[cfg_attr(native, allow(dead_code, reason = "used only in browsers"))]
    pub(crate) fn generation(&self) -> Option<u64> {
        self.state.as_ref().map(|state| state.generation)
    }

    /// Number of cached bytes.
    #[cfg(all(test, native))]
    pub(crate) fn byte_length(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.extents.byte_length())
    }

    /// Whether all of `range` is cached. The bytes are not verified.
    #[cfg_attr(native, allow(dead_code, reason = "used only in browsers"))]
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.state.as_ref().is_some_and(|state| state.extents.run_end(range.start) >= range.end)
    }

    /// Truncates the log and writes a new description. `generation` is a random number: records of another generation
    /// that reappear after a crash are ignored.
    ///
    /// # Errors
    /// Those of the storage; `LIMIT` if the URL is too long.
    pub(crate) fn begin(&mut self, description: Description, generation: u64, now_ms: u64) -> Result<()> {
        (self.state, self.checked) = (None, None);
        self.storage.truncate(0)?;
        let head = record::describe(&description, generation, now_ms)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "the URL is too long for the cache"))?;
        self.storage.write_at(0, &head)?;
        self.storage.flush()?;
        let end = head.len() as u64;
        self.state = Some(State { description, generation, extents: Extents::default(), end });
        Ok(())
    }

    /// Updates the time of the last use.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn touch(&mut self, now_ms: u64) -> Result<()> {
        match self.state {
            Some(_) => self.storage.write_at(LAST_USED_AT, &record::last_used(now_ms)),
            None => Ok(()),
        }
    }

    /// Reads bytes from the start of `range`, at most to the end of one piece. If the first byte is not cached, returns
    /// the gap to request. A cached run of fewer than `min_run` bytes between two gaps counts as part of the gap.
    ///
    /// # Errors
    /// Those of the storage. A damaged piece is not an error: it counts as missing from then on.
    pub(crate) fn read(&mut self, range: Range<u64>, min_run: u64) -> Result<Found<'_>> {
        let Some(state) = &mut self.state else { return Ok(Found::Missing(range)) };
        while let Some((extent, piece)) = state.extents.find(range.start) {
            if self.checked != Some(piece) {
                self.checked = None; // `load` overwrites the scratch
                if load(&mut self.storage, &mut self.scratch, &piece)? {
                    self.checked = Some(piece);
                }
            }
            if self.checked.is_some() {
                let start = range.start - piece.start;
                let end = extent.end.min(range.end) - piece.start;
                let bytes = self.scratch.get(start as usize..end as usize).unwrap_or_default();
                return Ok(Found::Bytes(bytes));
            }
            state.extents.remove(&piece);
        }
        Ok(Found::Missing(state.extents.missing(&range, min_run)))
    }

    /// Writes `bytes`, at most [`PIECE_BYTES`], at the offset `start` of the file. Ranges that are already cached are
    /// not written again.
    ///
    /// # Errors
    /// Those of the storage: the piece that failed is not recorded. `INTERNAL` before [`Log::begin`].
    pub(crate) fn append(&mut self, start: u64, bytes: &[u8]) -> Result<()> {
        let unusable = || {
            let what = "the log has no description, or the range to cache is longer than a piece or overflows u64";
            Error::new(ErrorKind::Internal, what)
        };
        let end = start.checked_add(bytes.len() as u64).ok_or_else(unusable)?;
        let state = self.state.as_mut().filter(|_| bytes.len() as u64 <= PIECE_BYTES).ok_or_else(unusable)?;
        loop {
            let gap = state.extents.missing(&(start..end), 1);
            if gap.is_empty() {
                return Ok(());
            }
            let part = bytes.get((gap.start - start) as usize..(gap.end - start) as usize).ok_or_else(unusable)?;
            let record = record::record(state.generation, gap.start, part);
            self.storage.write_at(state.end + RECORD_BYTES as u64, part)?;
            self.storage.write_at(state.end, &record)?;
            let record = record.first_chunk().ok_or_else(unusable)?;
            state.extents.insert(record::read_record(record, state.generation, state.end).ok_or_else(unusable)?);
            state.end += RECORD_BYTES as u64 + part.len() as u64;
        }
    }

    /// Flushes the storage: see [`Storage::flush`].
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.storage.flush()
    }

    /// Returns the storage.
    #[cfg(all(test, native))]
    pub(crate) fn into_storage(self) -> S {
        self.storage
    }

    fn read_description(&mut self) -> Result<Option<State>> {
        let mut head = [0; HEAD_BYTES];
        if self.storage.read_at(0, &mut head)? < HEAD_BYTES {
            return Ok(None);
        }
        let Some(head) = Head::read(&head) else { return Ok(None) };
        let mut text = vec![0; head.text_length];
        if self.storage.read_at(HEAD_BYTES as u64, &mut text)? < text.len() {
            return Ok(None);
        }
        let end = (HEAD_BYTES + text.len()) as u64;
        Ok(head.describes(&text).map(|description| {
            let (generation, extents) = (head.generation, Extents::default());
            State { description, generation, extents, end }
        }))
    }

    /// Reads records up to the first invalid one. Bytes after it are remains of a crash.
    fn read_records(&mut self) -> Result<()> {
        let Some(state) = &mut self.state else { return Ok(()) };
        let byte_length = self.storage.byte_length()?;
        let mut bytes = [0; RECORD_BYTES];
        while self.storage.read_at(state.end, &mut bytes)? == RECORD_BYTES {
            let Some(piece) = record::read_record(&bytes, state.generation, state.end) else { break };
            let end = piece.at + u64::from(piece.byte_length);
            if end > byte_length {
                break;
            }
            state.extents.insert(piece);
            state.end = end;
        }
        Ok(())
    }
}

/// Decodes the description and the time of the last use from the first [`MAX_HEADER_BYTES`] of a log.
#[cfg_attr(native, allow(dead_code, reason = "used only in browsers"))]
pub(super) fn parse_header(bytes: &[u8]) -> Option<(Description, u64)> {
    let head = Head::read(bytes.first_chunk()?)?;
    let text = bytes.get(HEAD_BYTES..HEAD_BYTES + head.text_length)?;
    Some((head.describes(text)?, head.last_used_ms))
}

/// Maximum length of the description at the start of a log.
#[cfg_attr(native, allow(dead_code, reason = "used only in browsers"))]
pub(super) const MAX_HEADER_BYTES: u64 = (HEAD_BYTES + record::MAX_TEXT_BYTES) as u64;

fn load(storage: &mut impl Storage, scratch: &mut Vec<u8>, piece: &Piece) -> Result<bool> {
    scratch.resize(piece.byte_length as usize, 0);
    Ok(storage.read_at(piece.at, scratch)? == scratch.len() && checksum(scratch) == piece.crc32)
}
