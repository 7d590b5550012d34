//! Which bytes of which log have a strong digest: so what was fetched from one URL is found under another.
//!
//! A list of records, to which only is added. One that names a log which is gone, or has begun anew, finds nothing.
//! Integers are little-endian.
//!
//! | bytes | of a record |
//! | --- | --- |
//! | 4 | CRC-32 of what follows |
//! | 32 | the content: BLAKE3 of what names the digest |
//! | 32 + 8 | name and generation of the log |
//! | 8 + 8 | where the bytes begin in the file that the log keeps, and how many there are |

use super::storage::Storage;
use crate::codec::crc32::checksum;
use crate::error::Result;
use std::collections::HashMap;

const RECORD_BYTES: usize = 92;

/// The records are read in pieces of so many.
const READ_RECORDS: usize = 512;

/// What stands for a digest and its algorithm.
pub(crate) type Content = [u8; 32];

/// The name of a log.
pub(crate) type Name = [u8; 32];

/// Where bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// In which log,
    pub(crate) log: Name,
    /// as long as it is of this generation.
    pub(crate) generation: u64,
    /// Where they begin in the file that it keeps.
    pub(crate) start: u64,
    /// How many there are.
    pub(crate) byte_length: u64,
}

/// The list.
#[derive(Debug)]
pub(crate) struct Contents<S> {
    storage: S,
    places: HashMap<Content, Place>,
    /// Where the next record goes.
    end: u64,
}

impl<S: Storage> Contents<S> {
    /// Reads a list, up to the first record that is damaged.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn open(mut storage: S) -> Result<Self> {
        let (mut places, mut end) = (HashMap::new(), 0);
        let mut records = vec![0; RECORD_BYTES * READ_RECORDS];
        loop {
            let count = storage.read_at(end, &mut records)?;
            let (whole, _) = records.get(..count).unwrap_or_default().as_chunks::<RECORD_BYTES>();
            let read = whole.iter().map_while(read_record);
            let before = end;
            for (content, place) in read {
                places.insert(content, place);
                end += RECORD_BYTES as u64;
            }
            if end - before < records.len() as u64 {
                return Ok(Contents { storage, places, end });
            }
        }
    }

    /// Where the content was last said to be.
    pub(crate) fn find(&self, content: &Content) -> Option<&Place> {
        self.places.get(content)
    }

    /// Notes where the content is.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn add(&mut self, content: Content, place: Place) -> Result<()> {
        if self.places.get(&content) != Some(&place) {
            self.storage.write_at(self.end, &record(&content, &place))?;
            self.end += RECORD_BYTES as u64;
            self.places.insert(content, place);
        }
        Ok(())
    }

    /// The storage, for whoever is done with the list.
    #[cfg(all(test, not(target_arch = "wasm32")))]
    pub(crate) fn into_storage(self) -> S {
        self.storage
    }
}

pub(super) fn record(content: &Content, place: &Place) -> Vec<u8> {
    let Place { log, generation, start, byte_length } = place;
    let numbers = [generation, start, byte_length].map(|number| number.to_le_bytes());
    let fields = [content.as_slice(), log, &numbers.concat()].concat();
    [checksum(&fields).to_le_bytes().as_slice(), &fields].concat()
}

pub(super) fn read_record(record: &[u8; RECORD_BYTES]) -> Option<(Content, Place)> {
    let (crc32, fields) = record.split_first_chunk()?;
    if checksum(fields) != u32::from_le_bytes(*crc32) {
        return None;
    }
    let (content, fields) = fields.split_first_chunk()?;
    let (log, fields) = fields.split_first_chunk()?;
    let mut numbers = fields.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let (generation, start, byte_length) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some((*content, Place { log: *log, generation, start, byte_length }))
}
