//! Reads a finished file once, and computes what its record states about its content.

use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use weightstream::Result;
use weightstream::internals::codec::digest::Hasher;
use weightstream::internals::index::{ByteStreams, Component, Digest, Tensor};
use weightstream::internals::native::Reader;
use weightstream::internals::output::FinishedFile;

/// The number of bytes that are read and digested at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What a file contains.
pub(super) struct Content {
    pub(super) sha256: Digest,
    /// States from which it can be continued: see [`FileRecord::states`](super::record::FileRecord::states).
    pub(super) states: Vec<(u64, String)>,
    /// The digests of the components of each tensor, by role.
    pub(super) tensors: BTreeMap<String, BTreeMap<String, String>>,
    /// The digests of the dense bytes of tensors that are stored in streams.
    pub(super) dense: BTreeMap<String, String>,
}

/// Reads a finished file.
///
/// # Errors
/// `IO`; those of reading its index.
pub(super) fn content(file: &FinishedFile) -> Result<Content> {
    let reader = Reader::open(file.temporary_path())?;
    let mut components = RangeDigests::of(reader.tensors());
    let mut whole = FileDigest::of(reader.tensors());
    let mut bytes = File::open(file.temporary_path())?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut position = 0;
    loop {
        let length = bytes.read(&mut piece)?;
        let Some(piece) = piece.get(..length).filter(|piece| !piece.is_empty()) else { break };
        rayon::join(|| whole.update(piece), || components.update(position, piece));
        position += length as u64;
    }
    let digests = components.finish();
    let of_tensor = |tensor: &Tensor| {
        let of_component = tensor.components.iter().filter_map(|component| {
            let digest = digests.get(&(component.range.start, component.range.end))?;
            Some((component.role.to_string(), digest.to_string()))
        });
        (tensor.name.clone(), of_component.collect())
    };
    let (sha256, states) = whole.finish();
    let dense = dense_digests(&reader)?;
    Ok(Content { sha256, states, tensors: reader.tensors().iter().map(of_tensor).collect(), dense })
}

/// The digests of the dense bytes of the tensors that are stored in streams: another file may store them otherwise.
fn dense_digests(reader: &Reader) -> Result<BTreeMap<String, String>> {
    let of_tensor = |tensor: &Tensor| {
        let [component] = tensor.components.as_slice() else { return Ok(None) };
        if component.streams().is_none() {
            return Ok(None);
        }
        let mut hasher = sha256();
        reader.read_pieces(&tensor.name, &component.role, &mut |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        Ok(Some((tensor.name.clone(), hasher.finish().to_string())))
    };
    reader.tensors().par_iter().filter_map(|tensor| of_tensor(tensor).transpose()).collect()
}

/// The SHA-256 of a file.
///
/// # Errors
/// `IO`.
pub(super) fn sha256_of(file: &Path) -> Result<Digest> {
    let (mut hasher, mut bytes, mut piece) = (sha256(), File::open(file)?, vec![0; PIECE_BYTES]);
    loop {
        let length = bytes.read(&mut piece)?;
        match piece.get(..length) {
            Some([]) | None => return Ok(hasher.finish()),
            Some(piece) => hasher.update(piece),
        }
    }
}

/// The SHA-256 of a file that is read from its start, and the states from which clients continue it at each stream that
/// they read side by side with others.
struct FileDigest {
    hasher: Hasher,
    position: u64,
    /// The offsets of the states that follow, the last one first.
    pending: Vec<u64>,
    states: Vec<(u64, String)>,
}

impl FileDigest {
    fn of(tensors: &[Tensor]) -> Self {
        let streams = tensors.iter().flat_map(|tensor| &tensor.components).filter_map(Component::streams);
        let starts = streams.filter(|streams| streams.are_read_side_by_side()).flat_map(ByteStreams::later_starts);
        let mut pending: Vec<_> = starts.collect();
        pending.sort_unstable_by_key(|at| Reverse(*at));
        pending.dedup(); // tied tensors
        FileDigest { hasher: sha256(), position: 0, pending, states: Vec::new() }
    }

    /// Processes the bytes that follow those of the last call.
    fn update(&mut self, mut bytes: &[u8]) {
        while let Some(at) = self.pending.pop_if(|at| *at - self.position <= bytes.len() as u64) {
            let (before, after) = bytes.split_at((at - self.position) as usize);
            self.add(before);
            bytes = after;
            self.states.extend(self.hasher.state(at).map(|state| (at, state.to_string())));
        }
        self.add(bytes);
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.position += bytes.len() as u64;
    }

    fn finish(self) -> (Digest, Vec<(u64, String)>) {
        (self.hasher.finish(), self.states)
    }
}

/// The digests of ranges of a file that is read from its start. Ranges are equal, for tied tensors, or do not overlap.
struct RangeDigests {
    /// The ranges that have not ended yet, the last one first.
    pending: Vec<(Range<u64>, Hasher)>,
    finished: BTreeMap<(u64, u64), Digest>,
}

impl RangeDigests {
    fn of(tensors: &[Tensor]) -> Self {
        let mut ranges: Vec<_> =
            tensors.iter().flat_map(|tensor| &tensor.components).map(|c| c.range.clone()).collect();
        ranges.sort_by_key(|range| Reverse((range.start, range.end)));
        ranges.dedup();
        RangeDigests { pending: ranges.into_iter().map(|range| (range, sha256())).collect(), finished: BTreeMap::new() }
    }

    /// Processes the bytes at `position`, which follow those of the last call.
    fn update(&mut self, position: u64, bytes: &[u8]) {
        let end = position + bytes.len() as u64;
        while let Some((range, hasher)) = self.pending.last_mut().filter(|(range, _)| range.start < end) {
            let from = range.start.max(position) - position;
            let to = range.end.min(end).saturating_sub(position);
            hasher.update(bytes.get(from as usize..to as usize).unwrap_or_default());
            if range.end > end {
                return;
            }
            self.finish_last();
        }
    }

    fn finish(mut self) -> BTreeMap<(u64, u64), Digest> {
        while !self.pending.is_empty() {
            self.finish_last();
        }
        self.finished
    }

    fn finish_last(&mut self) {
        if let Some((range, hasher)) = self.pending.pop() {
            self.finished.insert((range.start, range.end), hasher.finish());
        }
    }
}

fn sha256() -> Hasher {
    Hasher::new(Digest::Sha256([0; 32]))
}
