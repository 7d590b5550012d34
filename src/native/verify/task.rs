//! The tasks into which the verification of a file is divided.

use super::checksums::Computed;
use crate::codec::ComponentDecoder;
use crate::codec::blake3_tree::Subtree;
use crate::codec::digest::Hasher;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Digest, Encoding, Tensor};
use crate::native::Reader;
use crate::native::file::TensorFile;
use crate::progress::Progress;
use blake3::hazmat::ChainingValue;
use std::ops::Range;

/// The size of tasks over raw bytes, so that one large tensor keeps all processors busy.
const RAW_TASK_BYTES: u64 = 16 << 20;

/// A byte range to read, and what to do with it.
pub(super) struct Task<'a> {
    pub(super) shard: usize,
    pub(super) file: &'a TensorFile,
    pub(super) range: Range<u64>,
    pub(super) work: Work<'a>,
}

pub(super) enum Work<'a> {
    /// Decode or digest a component; also its CRC-32, if the file has one.
    Component(&'a Tensor, &'a Component),
    /// The CRC-32 of raw bytes.
    Crc32,
    /// A digest with the algorithm of this one.
    Digest(Digest),
    /// A part of the BLAKE3 digest of this range.
    Subtree(Range<u64>),
}

/// What a task has computed.
pub(super) enum Output {
    Crc32(u32),
    Digest(Digest),
    Subtree(ChainingValue),
    /// Nothing that a checksum of the file needs.
    None,
}

impl Reader {
    /// Returns the tasks of one file: those of its checksums, and of components with blocks or digests. Other bytes are
    /// not read.
    pub(super) fn tasks<'a>(&'a self, shard: usize, file: &'a TensorFile) -> Vec<Task<'a>> {
        let mut whole: Vec<_> = self.components(shard).filter(|(_, c)| is_checked_whole(c)).collect();
        whole.sort_by_key(|(_, component)| component.range.start);
        let mut tasks = file.digest_tasks(shard);
        let raw = |range| file.crc32_cuts(range).map(|range| Task { shard, file, range, work: Work::Crc32 });
        let mut at = 0;
        for (tensor, component) in whole {
            let range = component.range.clone();
            tasks.extend(raw(at..range.start));
            at = range.end;
            tasks.push(Task { shard, file, range, work: Work::Component(tensor, component) });
        }
        tasks.extend(raw(at..file.bytes.byte_length()));
        tasks
    }

    fn components(&self, shard: usize) -> impl Iterator<Item = (&Tensor, &Component)> {
        let tensors = self.tensors.iter().filter(move |tensor| tensor.shard == shard);
        tensors.flat_map(|tensor| tensor.components.iter().map(move |component| (tensor, component)))
    }
}

impl Task<'_> {
    /// Reads the range. Errors of a component are found here, those of checksums when all tasks have ended.
    pub(super) fn run(&self, progress: &(dyn Progress + Sync)) -> Result<Output> {
        match &self.work {
            Work::Component(_, component) => self.decode(component, progress),
            Work::Crc32 => {
                let mut crc32 = crc32fast::Hasher::new();
                self.read_all(progress, |piece| crc32.update(piece))?;
                Ok(Output::Crc32(crc32.finalize()))
            }
            Work::Digest(stated) => {
                let mut hasher = Hasher::new(*stated);
                self.read_all(progress, |piece| hasher.update(piece))?;
                Ok(Output::Digest(hasher.finish()))
            }
            Work::Subtree(over) => {
                let mut subtree = Subtree::at(self.range.start - over.start);
                self.read_all(progress, |piece| subtree.update(piece))?;
                Ok(Output::Subtree(subtree.finish()))
            }
        }
    }

    /// Adds the output to that of the file's other tasks.
    pub(super) fn add(&self, output: Output, computed: &mut Computed) {
        match (output, &self.work) {
            (Output::Crc32(crc32), _) => computed.crc32s.add(self.range.clone(), crc32),
            (Output::Digest(digest), _) => computed.digests.push((self.range.clone(), digest)),
            (Output::Subtree(value), Work::Subtree(over)) => {
                computed.subtrees.entry((over.start, over.end)).or_default().insert(self.range.start, value);
            }
            (Output::Subtree(_) | Output::None, _) => {}
        }
    }

    fn decode(&self, component: &Component, progress: &(dyn Progress + Sync)) -> Result<Output> {
        let mut crc32 = self.file.has_crc32().then(crc32fast::Hasher::new);
        let mut decoder = ComponentDecoder::of(component);
        self.read(progress, |piece| {
            if let Some(crc32) = &mut crc32 {
                crc32.update(piece);
            }
            decoder.push(piece, &mut |_| Ok(())).map_err(|e| self.place(e))
        })?;
        decoder.finish(true).map_err(|e| self.place(e))?;
        Ok(crc32.map_or(Output::None, |crc32| Output::Crc32(crc32.finalize())))
    }

    fn read_all(&self, progress: &(dyn Progress + Sync), mut take: impl FnMut(&[u8])) -> Result<()> {
        self.read(progress, |piece| {
            take(piece);
            Ok(())
        })
    }

    fn read(&self, progress: &(dyn Progress + Sync), mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.file.bytes.storage.read_pieces(&self.range, &mut |piece| {
            if progress.is_cancelled() {
                return Err(Error::new(ErrorKind::Io, "the check was interrupted").advise("Run it again."));
            }
            take(piece)?;
            progress.advanced(piece.len() as u64);
            Ok(())
        })
    }

    fn place(&self, error: Error) -> Error {
        match self.work {
            Work::Component(tensor, _) => error.at(self.range.clone()).in_tensor(&tensor.name),
            _ => error.at(self.range.clone()),
        }
    }
}

impl TensorFile {
    /// Splits raw bytes that only contribute to a CRC into tasks, also at the bounds of checksums. Returns no tasks if
    /// the file has no CRC.
    fn crc32_cuts(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut cuts: Vec<_> = (range.start..range.end).step_by(RAW_TASK_BYTES as usize).skip(1).collect();
        cuts.extend(self.checksums.iter().flat_map(|checksum| [checksum.over.start, checksum.over.end]));
        cuts.retain(|cut| range.start < *cut && *cut < range.end);
        cuts.extend([range.start, range.end]);
        cuts.sort_unstable();
        cuts.dedup();
        let has_crc32 = self.has_crc32();
        let ends = cuts.clone().into_iter().skip(1);
        cuts.into_iter().zip(ends).filter(move |_| has_crc32).map(|(start, end)| start..end)
    }
}

fn is_checked_whole(component: &Component) -> bool {
    !component.range.is_empty() && (component.encoding != Encoding::Raw || component.digest.is_some())
}
