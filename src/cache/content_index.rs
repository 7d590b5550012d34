//! Content index: maps content IDs to the cached bytes that have the digest. A load from one URL can thus use bytes
//! that were cached under another URL.
//!
//! The index is an append-only list of records. A record is ignored if its log has been deleted or has another
//! generation. Integers are little-endian.
//!
//! | bytes | field of a record |
//! | --- | --- |
//! | 4 | CRC-32 of the following fields |
//! | 32 | content ID: SHA-256 of the algorithm and digest |
//! | 32 + 8 | name and generation of the log |
//! | 8 + 8 | offset in the cached file, and length |

use super::storage::Storage;
use crate::codec::crc32::checksum;
use crate::error::Result;
use std::collections::HashMap;

const RECORD_BYTES: usize = 92;

/// Number of records that are read at a time.
const READ_RECORDS: usize = 512;

/// Identifies a digest and its algorithm.
pub(crate) type ContentId = [u8; 32];

/// The name of a log.
pub(crate) type Name = [u8; 32];

/// The location of cached bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    /// The name of the log.
    pub(crate) log: Name,
    /// The generation of the log. In any other generation the location is invalid.
    pub(crate) generation: u64,
    /// Offset in the cached file.
    pub(crate) start: u64,
    /// Number of bytes.
    pub(crate) byte_length: u64,
}

/// The content index.
#[derive(Debug)]
pub(crate) struct ContentIndex<S> {
    storage: S,
    locations: HashMap<ContentId, Location>,
    /// Position of the next record.
    end: u64,
}

impl<S: Storage> ContentIndex<S> {
    /// Reads an index, up to the first damaged record.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn open(mut storage: S) -> Result<Self> {
        let (mut locations, mut end) = (HashMap::new(), 0);
        let mut records = vec![0; RECORD_BYTES * READ_RECORDS];
        loop {
            let count = storage.read_at(end, &mut records)?;
            let (whole, _) = records.get(..count).unwrap_or_default().as_chunks::<RECORD_BYTES>();
            let read = whole.iter().map_while(read_record);
            let before = end;
            for (content, location) in read {
                locations.insert(content, location);
                end += RECORD_BYTES as u64;
            }
            if end - before < records.len() as u64 {
                return Ok(ContentIndex { storage, locations, end });
            }
        }
    }

    /// Returns the location that was recorded last for a content.
    pub(crate) fn find(&self, content: &ContentId) -> Option<&Location> {
        self.locations.get(content)
    }

    /// Records the location of a content.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn add(&mut self, content: ContentId, location: Location) -> Result<()> {
        if self.locations.get(&content) != Some(&location) {
            self.storage.write_at(self.end, &record(&content, &location))?;
            self.end += RECORD_BYTES as u64;
            self.locations.insert(content, location);
        }
        Ok(())
    }

    /// Returns the storage.
    #[cfg(all(test, native))]
    pub(crate) fn into_storage(self) -> S {
        self.storage
    }
}

pub(super) fn record(content: &ContentId, location: &Location) -> Vec<u8> {
    let Location { log, generation, start, byte_length } = location;
    let numbers = [generation, start, byte_length].map(|number| number.to_le_bytes());
    let fields = [content.as_slice(), log, &numbers.concat()].concat();
    [checksum(&fields).to_le_bytes().as_slice(), &fields].concat()
}

pub(super) fn read_record(record: &[u8; RECORD_BYTES]) -> Option<(ContentId, Location)> {
    let (crc32, fields) = record.split_first_chunk()?;
    if checksum(fields) != u32::from_le_bytes(*crc32) {
        return None;
    }
    let (content, fields) = fields.split_first_chunk()?;
    let (log, fields) = fields.split_first_chunk()?;
    let mut numbers = fields.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let (generation, start, byte_length) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some((*content, Location { log: *log, generation, start, byte_length }))
}
