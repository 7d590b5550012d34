//! The tasks into which the verification of a file is divided.

use super::checksums::is_digested_in_parts;
use super::sums::{Computed, Part, PartsHasher};
use crate::codec::blake3_tree::Subtrees;
use crate::codec::digest::Hasher;
use crate::codec::pages::PageChecker;
use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::{Component, Digest, Encoding, PageTable, Tensor};
use crate::native::Reader;
use crate::native::file::TensorFile;
use crate::pipeline::{Pipeline, Task as ComponentTask};
use crate::progress::Progress;
use std::ops::Range;
use std::sync::Arc;

/// The size of tasks over raw bytes, so that one large tensor keeps all processors busy.
const RAW_TASK_BYTES: u64 = 16 << 20;

/// A byte range to read, and what to do with it.
pub(super) struct Task<'a> {
    pub(super) shard: usize,
    pub(super) file: &'a TensorFile,
    pub(super) range: Range<u64>,
    work: Work<'a>,
    /// Whether to compute the CRC-32 of the range.
    has_crc32: bool,
    /// The parts of BLAKE3 digests to compute. The last chunk may end after `range`.
    parts: Vec<Part>,
}

pub(super) enum Work<'a> {
    /// Decode or digest a component.
    Component(&'a Tensor, &'a Component),
    /// A digest with the algorithm of this one.
    Digest(Digest),
    /// Compare the digests of all pages of the range.
    Pages(PageTable),
    /// Nothing besides the CRC-32 and the parts of BLAKE3 digests.
    Parts,
}

/// What a task has computed.
#[derive(Default)]
pub(super) struct Output {
    crc32: Option<u32>,
    digest: Option<Digest>,
    parts: Vec<(Range<u64>, Subtrees)>,
}

impl Reader {
    /// Returns the tasks of one file: those of its checksums, and of components with blocks or digests. Other bytes are
    /// not read. The tasks that read the bytes anyway also compute CRC-32 and parts of BLAKE3 digests.
    pub(super) fn tasks<'a>(&'a self, shard: usize, file: &'a TensorFile) -> Vec<Task<'a>> {
        let mut whole: Vec<_> = self.components(shard).filter(|(_, c)| is_checked_whole(c)).collect();
        whole.sort_by_key(|(_, component)| component.range.start);
        let mut tasks: Vec<_> = file.digest_tasks(shard).collect();
        // The digest of a component covers the same bytes as those of its pages.
        let only_pages = self.components(shard).filter(|(_, component)| component.digest.is_none());
        let mut tables: Vec<_> = only_pages.filter_map(|(_, component)| component.pages.as_deref()).collect();
        tables.sort_by_key(|table| (table.over.start, table.at.start));
        tables.dedup();
        tasks.extend(tables.into_iter().map(|t| Task::new(shard, file, t.over.clone(), Work::Pages(t.clone()))));
        let mut in_order = Vec::new();
        let raw = |range| file.cuts(range).map(|range| Task::new(shard, file, range, Work::Parts));
        let mut at = 0;
        for (tensor, component) in whole {
            let range = component.range.clone();
            let task = Task::new(shard, file, range.clone(), Work::Component(tensor, component));
            if range.start < at {
                tasks.push(task); // its bytes are shared with another component
                continue;
            }
            in_order.extend(raw(at..range.start));
            at = range.end;
            in_order.push(task);
        }
        in_order.extend(raw(at..file.bytes.byte_length()));
        let blake3_ranges = file.blake3_ranges(self.components(shard).map(|(_, component)| component));
        distribute(&blake3_ranges, file.has_crc32(), &mut in_order);
        tasks.extend(in_order.into_iter().filter(|task| !task.is_idle()));
        tasks
    }

    /// The components in a file. Those of a quantized tensor may be in several.
    pub(super) fn components(&self, shard: usize) -> impl Iterator<Item = (&Tensor, &Component)> {
        let all = self.tensors().iter().flat_map(|tensor| tensor.components.iter().map(move |it| (tensor, it)));
        all.filter(move |(tensor, component)| tensor.shard_of(component) == shard)
    }

    /// The parts of quantized tensors in a file, as it has them.
    pub(super) fn parts_in(&self, shard: usize) -> Vec<Tensor> {
        let quantized = self.tensors().iter().filter(|tensor| tensor.quantized().is_some());
        quantized.flat_map(Tensor::stored_parts).filter(|part| part.shard == shard).collect()
    }
}

/// Assigns the CRC-32 and the parts of BLAKE3 digests to tasks, which are disjoint and in the order of the file.
/// `blake3_ranges` are sorted by their starts.
fn distribute(blake3_ranges: &[Range<u64>], has_crc32: bool, tasks: &mut [Task]) {
    let mut next = blake3_ranges.iter().peekable();
    let mut begun = Vec::new();
    for task in tasks {
        task.has_crc32 = has_crc32;
        begun.extend(std::iter::from_fn(|| next.next_if(|range| range.start < task.range.end)));
        begun.retain(|range: &&Range<u64>| range.end > task.range.start);
        task.parts = begun.iter().filter_map(|range| Part::in_read(range, &task.range)).collect();
        task.parts.sort_unstable_by_key(|part| part.bytes.start);
    }
}

impl<'a> Task<'a> {
    pub(super) fn new(shard: usize, file: &'a TensorFile, range: Range<u64>, work: Work<'a>) -> Self {
        Task { shard, file, range, work, has_crc32: false, parts: Vec::new() }
    }

    fn is_idle(&self) -> bool {
        matches!(self.work, Work::Parts) && !self.has_crc32 && self.parts.is_empty()
    }

    /// Reads the range. Errors of a component are found here, those of other checksums when all tasks have ended.
    pub(super) fn run(&self, progress: &(dyn Progress + Sync)) -> Result<Output> {
        let mut crc32 = self.has_crc32.then(crc32fast::Hasher::new);
        let mut parts = PartsHasher::new(&self.parts, self.range.start);
        let mut pipeline = match &self.work {
            Work::Component(_, component) => Some(Pipeline::new(&ComponentTask::whole(component))?),
            _ => None,
        };
        let mut hasher = match &self.work {
            Work::Digest(stated) => Some(Hasher::new(*stated)),
            _ => None,
        };
        let mut pages = match &self.work {
            Work::Pages(table) => {
                let pages = self.file.bytes.parse(|window| format::page_digests(window, table))?;
                Some(PageChecker::new(Arc::new(pages)))
            }
            _ => None,
        };
        let mut at = self.range.start;
        self.file.bytes.storage.read_pieces(&self.range, &mut |piece| {
            if progress.is_cancelled() {
                return Err(Error::new(ErrorKind::Io, "the check was interrupted").advise("Run it again."));
            }
            if let Some(crc32) = &mut crc32 {
                crc32.update(piece);
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
            parts.update(piece);
            if let Some(pages) = &mut pages {
                pages.update(at, piece)?;
            }
            at += piece.len() as u64;
            if let Some(pipeline) = &mut pipeline {
                pipeline.push(piece, &mut |_| Ok(())).map_err(|e| self.place(e))?;
            }
            progress.advanced(piece.len() as u64);
            Ok(())
        })?;
        if let Some(pipeline) = pipeline {
            pipeline.finish().map_err(|e| self.place(e))?;
        }
        let end = self.parts.iter().map(|part| part.bytes.end).max().unwrap_or(0);
        if end > self.range.end {
            parts.update(&self.file.bytes.storage.read(&(self.range.end..end))?);
        }
        let crc32 = crc32.map(crc32fast::Hasher::finalize);
        Ok(Output { crc32, digest: hasher.map(Hasher::finish), parts: parts.finish() })
    }

    /// Adds the output to that of the file's other tasks.
    pub(super) fn add(&self, output: Output, computed: &mut Computed) {
        if let Some(crc32) = output.crc32 {
            computed.crc32s.add(self.range.clone(), crc32);
        }
        computed.digests.extend(output.digest.map(|digest| (self.range.clone(), digest)));
        computed.add_parts(output.parts);
    }

    fn place(&self, error: Error) -> Error {
        match self.work {
            Work::Component(tensor, _) => error.at(self.range.clone()).in_tensor(&tensor.name),
            _ => error.at(self.range.clone()),
        }
    }
}

impl TensorFile {
    /// Splits raw bytes that only contribute to checksums in parts into tasks, also at the bounds of CRCs.
    fn cuts(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut cuts: Vec<_> = (range.start..range.end).step_by(RAW_TASK_BYTES as usize).skip(1).collect();
        if self.has_crc32() {
            cuts.extend(self.plan.checksums().iter().flat_map(|checksum| [checksum.over.start, checksum.over.end]));
        }
        cuts.retain(|cut| range.start < *cut && *cut < range.end);
        cuts.extend([range.start, range.end]);
        cuts.sort_unstable();
        cuts.dedup();
        let ends = cuts.clone().into_iter().skip(1);
        cuts.into_iter().zip(ends).map(|(start, end)| start..end)
    }
}

/// Whether a component is one task.
fn is_checked_whole(component: &Component) -> bool {
    let is_checked = component.encoding != Encoding::Raw || component.digest.is_some() || component.rule.is_some();
    is_checked && !is_digested_in_parts(component)
}
