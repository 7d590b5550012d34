//! Verifies a whole model on all processors: decodes every block, and compares every digest and checksum.

use super::file::TensorFile;
use super::{Reader, Verified};
use crate::codec::ComponentDecoder;
use crate::codec::crc32::Crc32Parts;
use crate::codec::digest::{self, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, Stated};
use crate::index::{Component, Digest, Encoding, Tensor, saturating_sum};
use crate::progress::Progress;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The size of tasks over raw bytes, so that one large tensor keeps all processors busy.
const RAW_TASK_BYTES: u64 = 16 << 20;

impl Reader {
    /// Verifies the whole model: every block is decoded, and every checksum is compared. Buffers at most one block per
    /// processor. Opening the model has checked heads, bounds, lengths, duplicates and the manifest's map of tensors.
    ///
    /// # Errors
    /// `CHECKSUM` or `FORMAT` for the first error found.
    pub fn verify(&self, progress: &(dyn Progress + Sync)) -> Result<Verified> {
        let tasks: Vec<_> = self.files.iter().enumerate().flat_map(|(shard, file)| self.tasks(shard, file)).collect();
        progress.expects(saturating_sum(tasks.iter().map(|task| task.range.end - task.range.start)));
        let crc32s: Vec<_> = self.files.iter().map(|_| Mutex::new(Crc32Parts::default())).collect();
        in_parallel(&tasks, |task| {
            let crc32 = task.run(progress).map_err(|e| e.in_file(&task.file.bytes.name))?;
            if let Some(parts) = crc32s.get(task.shard) {
                parts.lock().unwrap_or_else(PoisonError::into_inner).add(task.range.clone(), crc32);
            }
            Ok(())
        })?;

        for tensor in self.tensors.iter().filter(|tensor| tensor.is_sparse()) {
            self.load(tensor)?;
        }

        let (files, tensors) = (self.files.len(), self.tensors.len());
        let mut verified = Verified { files, tensors, ..Verified::default() };
        for ((shard, file), crc32s) in self.files.iter().enumerate().zip(crc32s) {
            let crc32s = crc32s.into_inner().unwrap_or_else(PoisonError::into_inner);
            let compared = compare_checksums(file, &crc32s).map_err(|e| e.in_file(&file.bytes.name))?;
            let tensors = || self.tensors.iter().filter(|tensor| tensor.shard == shard);
            verified.add_file(tensors(), &compared);
            let warning = file.check_padding(&tensors).map_err(|e| e.in_file(&file.bytes.name))?;
            verified.warnings.extend(warning.map(|warning| (file.bytes.name.clone(), warning)));
        }
        Ok(verified)
    }

    /// Returns the tasks of one file: all bytes once if the file has a checksum, else only verifiable components.
    fn tasks<'a>(&'a self, shard: usize, file: &'a TensorFile) -> Vec<Task<'a>> {
        let mut whole: Vec<_> = self.components(shard).filter(|(_, c)| is_checked_whole(c)).collect();
        whole.sort_by_key(|(_, component)| component.range.start);
        let mut tasks = Vec::new();
        let mut at = 0;
        for (tensor, component) in whole {
            let range = component.range.clone();
            tasks.extend(file.raw_cuts(at..range.start).map(|range| Task { shard, file, range, component: None }));
            at = range.end;
            tasks.push(Task { shard, file, range, component: Some((tensor, component)) });
        }
        let rest = file.raw_cuts(at..file.bytes.byte_length());
        tasks.extend(rest.map(|range| Task { shard, file, range, component: None }));
        tasks
    }

    fn components(&self, shard: usize) -> impl Iterator<Item = (&Tensor, &Component)> {
        let tensors = self.tensors.iter().filter(move |tensor| tensor.shard == shard);
        tensors.flat_map(|tensor| tensor.components.iter().map(move |component| (tensor, component)))
    }
}

/// A byte range to read: a component to decode or digest, or raw bytes that only contribute to a CRC.
struct Task<'a> {
    shard: usize,
    file: &'a TensorFile,
    range: Range<u64>,
    component: Option<(&'a Tensor, &'a Component)>,
}

impl Task<'_> {
    /// Reads the range, and returns its CRC32.
    fn run(&self, progress: &(dyn Progress + Sync)) -> Result<u32> {
        let mut crc32 = crc32fast::Hasher::new();
        let mut reader = self.component.map(|(_, component)| ComponentDecoder::of(component));
        self.file.bytes.storage.read_pieces(&self.range, &mut |piece| {
            if progress.is_cancelled() {
                return Err(Error::new(ErrorKind::Io, "the check was interrupted").advise("Run it again."));
            }
            crc32.update(piece);
            if let Some(reader) = &mut reader {
                reader.push(piece, &mut |_| Ok(())).map_err(|e| self.place(e))?;
            }
            progress.advanced(piece.len() as u64);
            Ok(())
        })?;
        if let Some(reader) = reader {
            reader.finish(true).map_err(|e| self.place(e))?;
        }
        Ok(crc32.finalize())
    }

    fn place(&self, error: Error) -> Error {
        match self.component {
            Some((tensor, _)) => error.at(self.range.clone()).in_tensor(&tensor.name),
            None => error.at(self.range.clone()),
        }
    }
}

impl TensorFile {
    /// Reads the padding of a file with these tensors. Returns the warning if it is not zero.
    fn check_padding<'t, T: Iterator<Item = &'t Tensor>>(&self, tensors: &dyn Fn() -> T) -> Result<Option<String>> {
        // A file of raw bytes has the format of the file that lists its tensors, and no head of its own.
        let format = format::formats().iter().find(|format| format.name == self.index.format);
        let Some(format) = format else { return Ok(None) };
        let check = self.bytes.parse(|window| format.padding_check(window, tensors()))?;
        let Some(mut check) = check else { return Ok(None) };
        for gap in check.gaps().to_vec() {
            check.update(gap.start, &self.bytes.storage.read(&gap)?);
        }
        Ok(check.warning())
    }

    /// Splits raw bytes that only contribute to a CRC into tasks, also at the bounds of checksums. Returns no tasks if
    /// the file has no checksum.
    fn raw_cuts(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut cuts: Vec<_> = (range.start..range.end).step_by(RAW_TASK_BYTES as usize).skip(1).collect();
        cuts.extend(self.checksums.iter().flat_map(|checksum| [checksum.over.start, checksum.over.end]));
        cuts.retain(|cut| range.start < *cut && *cut < range.end);
        cuts.extend([range.start, range.end]);
        cuts.sort_unstable();
        cuts.dedup();
        let has_checksum = !self.checksums.is_empty() || self.stated_digest.is_some();
        let ends = cuts.clone().into_iter().skip(1);
        cuts.into_iter().zip(ends).filter(move |_| has_checksum).map(|(start, end)| start..end)
    }
}

fn is_checked_whole(component: &Component) -> bool {
    !component.range.is_empty() && (component.encoding != Encoding::Raw || component.digest.is_some())
}

/// Compares the file's checksums, and returns their algorithms.
fn compare_checksums(file: &TensorFile, crc32s: &Crc32Parts) -> Result<Vec<&'static str>> {
    let mut algorithms = Vec::new();
    let mut footers = Vec::new();
    for checksum in &file.checksums {
        let stated = match checksum.stated {
            Stated::Digest(digest) => digest,
            Stated::Crc32At(at) => {
                let bytes = file.bytes.storage.read(&(at..at.saturating_add(4)))?;
                let crc32 = Digest::Crc32((&*bytes).try_into().map(u32::from_le_bytes).unwrap_or_default());
                footers.push(crc32);
                crc32
            }
        };
        algorithms.push(compare(file, &checksum.over, stated, crc32s, &checksum.by)?);
    }
    // APR's specification does not define whether the manifest's CRC covers the file or the bytes before its footer.
    if let Some(stated) = file.stated_digest.filter(|stated| !footers.contains(stated)) {
        algorithms.push(compare(file, &(0..file.bytes.byte_length()), stated, crc32s, "the manifest")?);
    }
    Ok(algorithms)
}

fn compare(
    file: &TensorFile,
    over: &Range<u64>,
    stated: Digest,
    crc32s: &Crc32Parts,
    by: &str,
) -> Result<&'static str> {
    let computed = match (stated, crc32s.over(over)) {
        (Digest::Crc32(_), Some(crc32)) => Digest::Crc32(crc32),
        _ => {
            let mut hasher = Hasher::new(stated);
            file.bytes.storage.read_pieces(over, &mut |piece| {
                hasher.update(piece);
                Ok(())
            })?;
            hasher.finish()
        }
    };
    digest::compare(computed, stated).map_err(|mut error| {
        error.what = format!("{}, says {by}", error.what);
        error.at(over.clone())
    })
}

/// Runs all tasks, with one thread per processor. Returns the error of the first failed task in task order.
fn in_parallel<T: Sync>(tasks: &[T], run: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let work = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(task) = tasks.get(at)
        {
            if let Err(error) = run(task) {
                next.store(tasks.len(), Ordering::Relaxed); // all previous tasks have been started
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failed = Some((at, error));
                }
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from); // 1 on wasm32, where it is unknown
    std::thread::scope(|scope| {
        for _ in 1..processors.min(tasks.len()) {
            // If a thread cannot be created, the others do its work.
            std::thread::Builder::new().spawn_scoped(scope, work).ok();
        }
        work();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}
