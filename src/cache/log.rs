//! What is kept of one file: pieces, one after the other, in the order in which they came.
//!
//! Nothing but the time of the last use is ever written over. A piece's bytes are written before the record that says
//! they are there; every record and every piece has a checksum, and a piece is checked whenever it is read. So whatever
//! a crash or a failing disk leaves of the last writes, in whatever order they arrived: bytes that come out are the
//! bytes that went in. A damaged piece is forgotten, and fetched again by whoever misses it.

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
    /// `None` for a log that is empty, or that nobody can read.
    kept: Option<Kept>,
    /// The bytes of `checked`.
    scratch: Vec<u8>,
    /// The piece that was read last: small tensors lie many in one.
    checked: Option<Piece>,
}

#[derive(Debug)]
struct Kept {
    description: Description,
    generation: u64,
    extents: Extents,
    /// Where the next record goes.
    end: u64,
}

/// What a log has of a range.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The first bytes of it, at least one.
    Bytes(&'a [u8]),
    /// It begins with this stretch that is not there.
    Missing(Range<u64>),
}

impl<S: Storage> Log<S> {
    /// Reads what a log says of itself. One that is empty, damaged, or of another version, is an empty log.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn open(storage: S) -> Result<Self> {
        let mut log = Log { storage, kept: None, scratch: Vec::new(), checked: None };
        log.kept = log.read_description()?;
        log.read_records()?;
        Ok(log)
    }

    /// The file that is kept, if there is one.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.kept.as_ref().map(|kept| &kept.description)
    }

    /// What tells this log from those that were there before under the same name.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "only the browser asks"))]
    pub(crate) fn generation(&self) -> Option<u64> {
        self.kept.as_ref().map(|kept| kept.generation)
    }

    /// How many bytes of the file are there.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn byte_length(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.extents.byte_length())
    }

    /// Whether all of `range` is there, as far as nobody has read it.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "only the browser asks"))]
    pub(crate) fn has(&self, range: &Range<u64>) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.extents.run_end(range.start) >= range.end)
    }

    /// Forgets what there was and begins anew. `generation` is random: what a crash brings back of an earlier log of
    /// another generation does not count.
    ///
    /// # Errors
    /// Those of the storage; `LIMIT` where the URL is too long to be kept.
    pub(crate) fn begin(&mut self, description: Description, generation: u64, now_ms: u64) -> Result<()> {
        (self.kept, self.checked) = (None, None);
        self.storage.truncate(0)?;
        let head = record::describe(&description, generation, now_ms)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "its URL is too long to keep a file under"))?;
        self.storage.write_at(0, &head)?;
        self.storage.flush()?;
        let end = head.len() as u64;
        self.kept = Some(Kept { description, generation, extents: Extents::default(), end });
        Ok(())
    }

    /// Notes that the file was used.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn touch(&mut self, now_ms: u64) -> Result<()> {
        match self.kept {
            Some(_) => self.storage.write_at(LAST_USED_AT, &record::last_used(now_ms)),
            None => Ok(()),
        }
    }

    /// Reads from the start of `range`: as far as one piece goes, or, where its first byte is not there, how far one
    /// request should go. A run of less than `least_run` bytes counts as missing, where it lies behind a missing one.
    ///
    /// # Errors
    /// Those of the storage. A damaged piece is no error: it is missing from now on.
    pub(crate) fn read(&mut self, range: Range<u64>, least_run: u64) -> Result<Found<'_>> {
        let Some(kept) = &mut self.kept else { return Ok(Found::Missing(range)) };
        while let Some((extent, piece)) = kept.extents.find(range.start) {
            if self.checked != Some(piece) {
                self.checked = None; // the scratch is about to hold something else
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
            kept.extents.remove(&piece);
        }
        Ok(Found::Missing(kept.extents.missing(&range, least_run)))
    }

    /// Keeps `bytes`, at most [`PIECE_BYTES`] of them, which begin at `start` in the file. What is there is not written
    /// again.
    ///
    /// # Errors
    /// Those of the storage: then none of it counts as kept. `INTERNAL` for a log that was not begun.
    pub(crate) fn append(&mut self, start: u64, bytes: &[u8]) -> Result<()> {
        let unusable = || Error::new(ErrorKind::Internal, "bytes were to be kept in a way that no log takes");
        let end = start.checked_add(bytes.len() as u64).ok_or_else(unusable)?;
        let kept = self.kept.as_mut().filter(|_| bytes.len() as u64 <= PIECE_BYTES).ok_or_else(unusable)?;
        loop {
            let gap = kept.extents.missing(&(start..end), 1);
            if gap.is_empty() {
                return Ok(());
            }
            let part = bytes.get((gap.start - start) as usize..(gap.end - start) as usize).ok_or_else(unusable)?;
            let record = record::record(kept.generation, gap.start, part);
            self.storage.write_at(kept.end + RECORD_BYTES as u64, part)?;
            self.storage.write_at(kept.end, &record)?;
            let record = record.first_chunk().ok_or_else(unusable)?;
            kept.extents.insert(record::read_record(record, kept.generation, kept.end).ok_or_else(unusable)?);
            kept.end += RECORD_BYTES as u64 + part.len() as u64;
        }
    }

    /// As [`Storage::flush`].
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.storage.flush()
    }

    /// The storage, for whoever is done with the log.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn into_storage(self) -> S {
        self.storage
    }

    fn read_description(&mut self) -> Result<Option<Kept>> {
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
            Kept { description, generation, extents, end }
        }))
    }

    /// Reads records until there is none: the rest is what a crash left.
    fn read_records(&mut self) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let byte_length = self.storage.byte_length()?;
        let mut bytes = [0; RECORD_BYTES];
        while self.storage.read_at(kept.end, &mut bytes)? == RECORD_BYTES {
            let Some(piece) = record::read_record(&bytes, kept.generation, kept.end) else { break };
            let end = piece.at + u64::from(piece.byte_length);
            if end > byte_length {
                break;
            }
            kept.extents.insert(piece);
            kept.end = end;
        }
        Ok(())
    }
}

/// What the first bytes of a log say: which file it keeps, and when that was last used.
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "only the browser lists logs"))]
pub(super) fn glance(bytes: &[u8]) -> Option<(Description, u64)> {
    let head = Head::read(bytes.first_chunk()?)?;
    let text = bytes.get(HEAD_BYTES..HEAD_BYTES + head.text_length)?;
    Some((head.describes(text)?, head.last_used_ms))
}

/// How many bytes [`glance`] needs.
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "only the browser lists logs"))]
pub(super) const GLANCE_BYTES: u64 = (HEAD_BYTES + record::MAX_TEXT_BYTES) as u64;

fn load(storage: &mut impl Storage, scratch: &mut Vec<u8>, piece: &Piece) -> Result<bool> {
    scratch.resize(piece.byte_length as usize, 0);
    Ok(storage.read_at(piece.at, scratch)? == scratch.len() && checksum(scratch) == piece.crc32)
}
