//! Verifies a whole model on all processors: decodes every block, and compares every digest and checksum.

mod checksums;
mod sums;
mod task;
#[cfg(all(test, writes))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;

use super::file::TensorFile;
use super::{Reader, Verified};
use crate::error::{Error, Result};
use crate::format;
use crate::index::{Tensor, saturating_sum};
use crate::progress::Progress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use sums::Computed;

impl Reader {
    /// Verifies the whole model: every block is decoded, and every checksum is compared. Buffers at most one block per
    /// processor. Opening the model has checked heads, bounds, lengths, duplicates and the manifest's map of tensors.
    ///
    /// # Errors
    /// `CHECKSUM` or `FORMAT` for the first error found.
    pub fn verify(&self, progress: &(dyn Progress + Sync)) -> Result<Verified> {
        let tasks: Vec<_> = self.files.iter().enumerate().flat_map(|(shard, file)| self.tasks(shard, file)).collect();
        progress.expects(saturating_sum(tasks.iter().map(|task| task.range.end - task.range.start)));
        let computed: Vec<_> = self.files.iter().map(|_| Mutex::new(Computed::default())).collect();
        in_parallel(&tasks, |task| {
            let output = task.run(progress).map_err(|e| e.in_file(&task.file.bytes.name))?;
            if let Some(computed) = computed.get(task.shard) {
                task.add(output, &mut computed.lock().unwrap_or_else(PoisonError::into_inner));
            }
            Ok(())
        })?;

        for tensor in self.tensors().iter().filter(|tensor| tensor.is_sparse()) {
            self.load(tensor)?;
        }

        let mut verified = Verified { files: self.files.len(), ..Verified::default() };
        for ((shard, file), computed) in self.files.iter().enumerate().zip(computed) {
            let computed = computed.into_inner().unwrap_or_else(PoisonError::into_inner);
            let compared = file.compare_components(self.components(shard), &computed);
            let compared = compared.and_then(|()| file.compare_checksums(&computed));
            let compared = compared.map_err(|e| e.in_file(&file.bytes.name))?;
            let parts = self.parts_in(shard);
            let is_stored = |tensor: &&Tensor| tensor.shard == shard && tensor.quantized().is_none();
            let tensors = || self.tensors().iter().filter(is_stored).chain(&parts);
            verified.tensors += tensors().count();
            verified.add_file(tensors(), &compared);
            verified.note_unchecked(&file.bytes.name, tensors(), &file.index.warnings);
            let warning = file.check_padding(&tensors).map_err(|e| e.in_file(&file.bytes.name))?;
            verified.warnings.extend(warning.map(|warning| (file.bytes.name.clone(), warning)));
        }
        Ok(verified)
    }
}

impl TensorFile {
    /// Reads the padding of a file with these tensors. Returns the warning if it is not zero.
    fn check_padding<'t, T: Iterator<Item = &'t Tensor>>(&'t self, tensors: &dyn Fn() -> T) -> Result<Option<String>> {
        // A file of raw bytes has the format of the file that lists its tensors, and no head of its own.
        let format = format::formats().iter().find(|format| format.name == self.index.format);
        let Some(format) = format else { return Ok(None) };
        let check = self.bytes.parse(|window| format.padding_check(window, tensors().chain(&self.shadowed)))?;
        let Some(mut check) = check else { return Ok(None) };
        for gap in check.gaps().to_vec() {
            check.update(gap.start, &self.bytes.storage.read(&gap)?);
        }
        Ok(check.warning())
    }
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
