//! Finds the ranges of new files that files of the previous revision contain, too, so that clients with that revision
//! need not download them.
//!
//! Files are divided into chunks whose boundaries depend on the content (FastCDC: Xia et al., IEEE TPDS 2020), so that
//! bytes that are inserted or removed only change the chunks around them.

use super::destination::Destination;
use super::previous::Previous;
use super::record::FileRecord;
use crate::object::object_error;
use bytes::{Buf, Bytes};
use fastcdc::v2020::StreamCDC;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::ObjectStoreExt;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::ops::Range;
use tokio::runtime::Runtime;
use weightstream::internals::progress::Progress;
use weightstream::internals::write::check_cancelled;
use weightstream::{Error, Result};

/// The smallest, average and largest size of a chunk in bytes.
const CHUNK_BYTES: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];

/// The length of a range that is worth a request that skips it.
const MIN_BYTES: u64 = 64 << 10;

/// The number of ranges that an entry states at most: each page reads the entry, and these take 400 KB of it.
const MAX_RANGES: usize = 4096;

/// Returns the ranges of each new file, by file name, file name of the previous revision and offset:
/// `{ "new": { "previous": [[start, start in previous, byte length], …] } }`.
///
/// # Errors
/// Those of the store; `IO` if `progress` cancels.
pub(super) fn find(
    destination: &Destination,
    records: &[FileRecord],
    previous: &Previous,
    progress: &(dyn Progress + Sync),
) -> Result<Map<String, Value>> {
    let current: HashSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    let earlier: Vec<String> = previous.names().collect();
    let replaced: Vec<&str> = earlier.iter().map(String::as_str).filter(|name| !current.contains(name)).collect();
    let earlier: HashSet<&str> = earlier.iter().map(String::as_str).collect();
    let new: Vec<&str> = current.difference(&earlier).copied().collect();
    if replaced.is_empty() || new.is_empty() {
        return Ok(Map::new());
    }
    let mut chunks = Chunks::default();
    for (file, name) in replaced.iter().enumerate() {
        each_chunk(destination, name, progress, |start, bytes| chunks.add(file, start, bytes))?;
    }
    let mut found = Vec::new();
    for name in new {
        let mut ranges = Vec::new();
        each_chunk(destination, name, progress, |start, bytes| chunks.find(start, bytes, &mut ranges))?;
        found.extend(ranges.into_iter().filter(|copied| length(copied) >= MIN_BYTES).map(|copied| (name, copied)));
    }
    found.sort_by_key(|(_, copied)| Reverse(length(copied)));
    found.truncate(MAX_RANGES);
    found.sort_by_key(|(name, copied)| (*name, copied.range.start));
    let mut by_file: BTreeMap<&str, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
    for (name, copied) in &found {
        let previous = replaced.get(copied.file).copied().unwrap_or_default();
        let stated = json!([copied.range.start, copied.start_in_file, length(copied)]);
        by_file.entry(name).or_default().entry(previous).or_default().push(stated);
    }
    Ok(by_file.into_iter().map(|(name, ranges)| (name.to_owned(), json!(ranges))).collect())
}

fn length(copied: &CopiedRange) -> u64 {
    copied.range.end - copied.range.start
}

/// A range of a new file whose bytes a file of the previous revision has, too.
#[derive(Debug, PartialEq)]
struct CopiedRange {
    range: Range<u64>,
    /// The number of the file of the previous revision.
    file: usize,
    start_in_file: u64,
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

    /// Adds a chunk of a new file to its ranges, if it is known. Prefers the continuation of the last range, because
    /// equal chunks may occur several times.
    fn find(&self, start: u64, bytes: &[u8], ranges: &mut Vec<CopiedRange>) {
        let range = start..start + bytes.len() as u64;
        let digest = blake3::hash(bytes);
        let Some(&first) = self.known.get(&digest) else { return };
        if let Some(last) = ranges.last_mut().filter(|last| last.range.end == start) {
            let next = (last.file, last.start_in_file + length(last));
            let position = self.all.binary_search_by_key(&next, |chunk| (chunk.file, chunk.start)).ok();
            if position.and_then(|position| self.all.get(position)).is_some_and(|chunk| chunk.digest == digest) {
                last.range.end = range.end;
                return;
            }
        }
        if let Some(&Chunk { file, start: start_in_file, .. }) = self.all.get(first) {
            ranges.push(CopiedRange { range, file, start_in_file });
        }
    }
}

/// Calls `take` with the offset and the bytes of each chunk of a published file.
fn each_chunk(
    destination: &Destination,
    name: &str,
    progress: &(dyn Progress + Sync),
    mut take: impl FnMut(u64, &[u8]),
) -> Result<()> {
    let Destination { store, runtime, .. } = destination;
    let path = destination.key_of(name)?;
    let place = |error: Error| error.in_file(&store.url_of(&path));
    let got = runtime.block_on(store.objects().get(&path));
    let pieces = got.map_err(|error| place(object_error(error)))?.into_stream();
    let reader = PieceReader { runtime, pieces, piece: Bytes::new() };
    let [min, average, max] = CHUNK_BYTES;
    for chunk in StreamCDC::new(reader, min, average, max) {
        check_cancelled(progress)?;
        let chunk = chunk.map_err(|error| place(io::Error::from(error).into()))?;
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
    fn neighbouring_chunks_are_one_range() {
        let chunks = chunks(&[b"a", b"bb", b"a", b"ccc"]);
        let mut ranges = Vec::new();
        for (start, bytes) in [(10, &b"bb"[..]), (12, b"a"), (13, b"ccc"), (16, b"new"), (19, b"a")] {
            chunks.find(start, bytes, &mut ranges);
        }
        let one = CopiedRange { range: 10..16, file: 0, start_in_file: 1 };
        let other = CopiedRange { range: 19..20, file: 0, start_in_file: 0 };
        assert_eq!(ranges, [one, other]);
    }
}
