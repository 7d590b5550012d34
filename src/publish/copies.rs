//! Finds the ranges of new files that files of the previous revision contain, too, so that clients with that revision
//! need not download them.
//!
//! Files are divided into chunks whose boundaries depend on the content (FastCDC: Xia et al., IEEE TPDS 2020), so that
//! bytes that are inserted or removed only change the chunks around them.

use super::destination::Destination;
use super::previous::Previous;
use super::record::FileRecord;
use crate::error::Result;
use crate::source::object::object_error;
use bytes::{Buf, Bytes};
use fastcdc::v2020::StreamCDC;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::ObjectStoreExt;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use tokio::runtime::Runtime;

/// The smallest, average and largest size of a chunk in bytes.
const CHUNK_BYTES: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];

/// The length of a range that is worth a request that skips it.
const MIN_BYTES: u64 = 64 << 10;

/// A range of a new file whose bytes are in a file of the previous revision.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copy {
    start: u64,
    byte_length: u64,
    /// The number of the file of the previous revision, and the offset in it.
    file: usize,
    previous_start: u64,
}

/// Returns the ranges of each new file, by file name, file name of the previous revision and offset:
/// `{ "new": { "previous": [[start, previous start, byte length], …] } }`.
///
/// # Errors
/// Those of the store.
pub(super) fn find(destination: &Destination, records: &[FileRecord], previous: &Previous) -> Result<Value> {
    let unchanged: HashSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    let replaced: Vec<&str> = previous.names().filter(|name| !unchanged.contains(name)).collect();
    let existing: HashSet<&str> = previous.names().collect();
    let mut found = Map::new();
    let mut chunks = Chunks::default();
    for record in records.iter().filter(|record| !existing.contains(record.name.as_str())) {
        if chunks.known.is_empty() {
            for (number, name) in replaced.iter().enumerate() {
                each_chunk(destination, name, |start, bytes| chunks.add(number, start, bytes))?;
            }
        }
        let mut copies = Vec::new();
        each_chunk(destination, &record.name, |start, bytes| chunks.find(start, bytes, &mut copies))?;
        copies.retain(|copy| copy.byte_length >= MIN_BYTES);
        let mut by_file: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for Copy { start, byte_length, file, previous_start } in copies {
            let name = replaced.get(file).copied().unwrap_or_default();
            by_file.entry(name).or_default().push(json!([start, previous_start, byte_length]));
        }
        if !by_file.is_empty() {
            found.insert(record.name.clone(), json!(by_file));
        }
    }
    Ok(Value::Object(found))
}

/// The chunks of the previous revision, in order.
#[derive(Default)]
struct Chunks {
    all: Vec<Chunk>,
    /// The number of the first chunk with each digest.
    known: HashMap<blake3::Hash, usize>,
}

struct Chunk {
    file: usize,
    start: u64,
    digest: blake3::Hash,
}

impl Chunks {
    fn add(&mut self, file: usize, start: u64, bytes: &[u8]) {
        let digest = blake3::hash(bytes);
        self.known.entry(digest).or_insert(self.all.len());
        self.all.push(Chunk { file, start, digest });
    }

    /// Adds a chunk of a new file to the copies, if it is known. Prefers the continuation of the last copy, because
    /// equal chunks may occur several times.
    fn find(&self, start: u64, bytes: &[u8], copies: &mut Vec<Copy>) {
        let byte_length = bytes.len() as u64;
        let digest = blake3::hash(bytes);
        let Some(&first) = self.known.get(&digest) else { return };
        if let Some(last) = copies.last_mut().filter(|last| last.start + last.byte_length == start) {
            let next = (last.file, last.previous_start + last.byte_length);
            let position = self.all.binary_search_by_key(&next, |chunk| (chunk.file, chunk.start)).ok();
            if position.and_then(|position| self.all.get(position)).is_some_and(|chunk| chunk.digest == digest) {
                last.byte_length += byte_length;
                return;
            }
        }
        if let Some(&Chunk { file, start: previous_start, .. }) = self.all.get(first) {
            copies.push(Copy { start, byte_length, file, previous_start });
        }
    }
}

/// Calls `take` with the offset and the bytes of each chunk of a published file.
fn each_chunk(destination: &Destination, name: &str, mut take: impl FnMut(u64, &[u8])) -> Result<()> {
    let Destination { store, runtime, .. } = destination;
    let path = destination.path_of(name);
    let place = |error| object_error(error).in_file(&store.url_of(&path));
    let pieces = runtime.block_on(store.objects().get(&path)).map_err(place)?.into_stream();
    let reader = PieceReader { runtime, pieces, piece: Bytes::new() };
    let [min, average, max] = CHUNK_BYTES;
    for chunk in StreamCDC::new(reader, min, average, max) {
        let chunk = chunk.map_err(io::Error::from)?;
        take(chunk.offset, &chunk.data);
    }
    Ok(())
}

/// Reads the pieces of a response.
struct PieceReader<'a> {
    runtime: &'a Runtime,
    pieces: BoxStream<'static, object_store::Result<Bytes>>,
    piece: Bytes,
}

impl Read for PieceReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.runtime.block_on(self.pieces.next()) {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let count = self.piece.len().min(into.len());
        if let Some(into) = into.get_mut(..count) {
            self.piece.copy_to_slice(into);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(contents: &[&[u8]]) -> Chunks {
        let mut chunks = Chunks::default();
        let mut start = 0;
        for bytes in contents {
            chunks.add(0, start, bytes);
            start += bytes.len() as u64;
        }
        chunks
    }

    #[test]
    fn neighbouring_chunks_are_one_copy() {
        let chunks = chunks(&[b"a", b"bb", b"a", b"ccc"]);
        let mut copies = Vec::new();
        for (start, bytes) in [(10, &b"bb"[..]), (12, b"a"), (13, b"ccc"), (16, b"new"), (19, b"a")] {
            chunks.find(start, bytes, &mut copies);
        }
        let one = Copy { start: 10, byte_length: 6, file: 0, previous_start: 1 };
        let other = Copy { start: 19, byte_length: 1, file: 0, previous_start: 0 };
        assert_eq!(copies, [one, other]);
    }
}
