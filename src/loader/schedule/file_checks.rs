//! Checks the checksums of whole files in calls that read all bytes of the model.

use crate::algorithm::Algorithm;
use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::padding::PaddingCheck;
use crate::loader::shard::Shard;
use crate::loader::transfer::file::ModelFile;
use crate::source::ModelSource;
use crate::trust::{Coverage, FilePlan, Sums};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The checksums of all files of the model, for one call that reads all bytes.
///
/// The state belongs to the call and not to the files: several calls may read the same file at the same time, and each
/// of them may be paused or dropped.
#[derive(Debug, Default)]
pub(crate) struct WholeChecks {
    /// By file, what is compared, and what was computed while the call reads.
    sums: RefCell<Vec<(FilePlan, Sums)>>,
    /// By file, the check of its padding.
    padding: RefCell<Vec<PaddingCheck>>,
    /// The warnings about padding, with the numbers of the files, once the call has read all bytes.
    warnings: RefCell<Vec<(usize, String)>>,
    /// By file, what verified its tensors one by one.
    by_tensors: RefCell<Vec<ByTensors>>,
    /// What was verified by file, once the call has compared all checksums.
    coverage: RefCell<Vec<Coverage>>,
    verified_by: Cell<Option<Algorithm>>,
    /// The files of which tensors are not read, with whether others are. Their checksums cannot be compared.
    omitted: RefCell<BTreeMap<usize, bool>>,
}

/// What verified the tensors of a file, by digests of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum ByTensors {
    /// No tensor has been read that has any bytes.
    #[default]
    Nothing,
    /// One algorithm verified all of them.
    All(Algorithm),
    /// A tensor has no digest, or they have different algorithms.
    Partly,
}

impl WholeChecks {
    /// Prepares the comparison of what is planned for each file.
    ///
    /// # Errors
    /// `FORMAT` for a head with invalid padding.
    pub(crate) fn begin<S: ModelSource>(&self, shards: &[Shard<S>], plans: Vec<FilePlan>) -> Result<()> {
        *self.padding.borrow_mut() = shards.iter().map(begin_padding).collect::<Result<_>>()?;
        let omitted = self.omitted.borrow();
        // What verifies the rest of such a file is only what the file states itself.
        let by_tensors =
            |shard| if omitted.get(&shard) == Some(&true) { ByTensors::Partly } else { ByTensors::Nothing };
        *self.by_tensors.borrow_mut() = (0..shards.len()).map(by_tensors).collect();
        let begin = |(shard, plan): (usize, FilePlan)| {
            let plan = if omitted.contains_key(&shard) { FilePlan::default() } else { plan };
            let sums = plan.begin();
            (plan, sums)
        };
        *self.sums.borrow_mut() = plans.into_iter().enumerate().map(begin).collect();
        for shard in omitted.keys() {
            self.padding.borrow_mut().get_mut(*shard).map(std::mem::take);
        }
        Ok(())
    }

    /// States that tensors of a file are not read, before the call begins. `is_partly_read` is whether others are.
    pub(crate) fn omit(&self, shard: usize, is_partly_read: bool) {
        self.omitted.borrow_mut().insert(shard, is_partly_read);
    }

    /// Adds the bytes of a file at the offset `start`: in order, unless [`WholeChecks::take_any_order`].
    pub(crate) fn update(&self, shard: usize, start: u64, bytes: &[u8]) {
        if let Some((_, sums)) = self.sums.borrow_mut().get_mut(shard) {
            sums.update(start, bytes);
        }
        if let Some(padding) = self.padding.borrow_mut().get_mut(shard) {
            padding.update(start, bytes);
        }
    }

    /// Whether a checksum covers bytes of the range, or padding is among them.
    pub(crate) fn include(&self, shard: usize, range: &Range<u64>) -> bool {
        self.sums.borrow().get(shard).is_some_and(|(_, sums)| sums.include(range))
            || self.padding.borrow().get(shard).is_some_and(|padding| padding.includes(range))
    }

    /// The first bytes that a checksum of the file lacks.
    pub(crate) fn missing(&self, shard: usize) -> Option<Range<u64>> {
        self.sums.borrow().get(shard).and_then(|(_, sums)| sums.missing())
    }

    /// Adds the algorithm that verified a component of the file.
    pub(crate) fn add_component(&self, shard: usize, verified: Option<Algorithm>) {
        if let Some(by_tensors) = self.by_tensors.borrow_mut().get_mut(shard) {
            *by_tensors = match (*by_tensors, verified) {
                (ByTensors::Nothing, Some(algorithm)) => ByTensors::All(algorithm),
                (ByTensors::All(known), Some(algorithm)) if known == algorithm => *by_tensors,
                _ => ByTensors::Partly,
            };
        }
    }

    /// Whether the bytes of a file may be added in any order.
    pub(crate) fn take_any_order(&self, shard: usize) -> bool {
        self.sums.borrow().get(shard).is_none_or(|(_, sums)| sums.take_any_order())
    }

    /// Whether bytes of a file from this offset on may be added before others.
    pub(crate) fn can_start_at(&self, shard: usize, at: u64) -> bool {
        self.sums.borrow().get(shard).is_none_or(|(_, sums)| sums.can_start_at(at))
    }

    /// The end of the bytes to read: the length of the file. For a file of unknown length, the end of the bytes that
    /// its checksums cover, which the header of an EMBD file states.
    pub(crate) fn known_end<S: ModelSource>(&self, shard: usize, file: &ModelFile<S>) -> Option<u64> {
        if self.omitted.borrow().contains_key(&shard) {
            return None;
        }
        let sums = self.sums.borrow();
        file.length().or_else(|| sums.get(shard)?.1.end())
    }

    /// Compares the checksums after all bytes have been added.
    ///
    /// # Errors
    /// `CHECKSUM` if one does not match; `TRUNCATED` if a file does not end where its format says.
    pub(crate) async fn finish<S: ModelSource>(&self, shards: &[Shard<S>]) -> Result<()> {
        let mut coverage = Vec::new();
        for (number, (shard, (plan, sums))) in shards.iter().zip(self.sums.take()).enumerate() {
            if self.omitted.borrow().contains_key(&number) {
                coverage.push(Coverage::default());
                continue;
            }
            let of_file = finish_file(&shard.file, &plan, &sums).await?;
            let signed = shard.file.signed_by().filter(|_| of_file.algorithms().is_empty()); // piece by piece
            coverage.push(signed.map_or(of_file, Coverage::whole));
        }
        let warning = |(shard, padding): (usize, PaddingCheck)| Some((shard, padding.warning()?));
        *self.warnings.borrow_mut() = self.padding.take().into_iter().enumerate().filter_map(warning).collect();
        let by_tensors = self.by_tensors.take();
        let of_files = coverage.iter().zip(shards).zip(by_tensors);
        let covering = of_files
            .map(|((of_file, shard), by_tensors)| covering_all(of_file, shard).map_or(by_tensors, ByTensors::All));
        // Files without tensors, such as an empty shard, leave nothing unverified.
        let mut covering = covering.filter(|covered| *covered != ByTensors::Nothing);
        let first = covering.next();
        self.verified_by.set(match first {
            Some(ByTensors::All(algorithm)) if covering.all(|covered| Some(covered) == first) => Some(algorithm),
            _ => None,
        });
        *self.coverage.borrow_mut() = coverage;
        Ok(())
    }

    /// The warnings that only reading all bytes shows, with the numbers of their files.
    pub(crate) fn take_warnings(&self) -> Vec<(usize, String)> {
        self.warnings.take()
    }

    /// What the checksums of files cover, by file.
    pub(crate) fn coverage(&self) -> Vec<Coverage> {
        self.coverage.borrow().clone()
    }

    /// The algorithm that verified every file, as a whole or tensor by tensor; `None` if a tensor has no checksum, or
    /// if there are several algorithms.
    pub(crate) fn verified_by(&self) -> Option<Algorithm> {
        self.verified_by.get()
    }
}

fn begin_padding<S: ModelSource>(shard: &Shard<S>) -> Result<PaddingCheck> {
    let open = shard.opened.try_lock().and_then(|open| open.clone());
    let Some(open) = open.filter(|_| !shard.file.is_raw) else { return Ok(PaddingCheck::default()) };
    let tensors = || open.index.tensors.iter().chain(open.shadowed.iter().cloned().map(Arc::new));
    let check = shard.file.try_parse(|window| format::padding_check(window, tensors()))?;
    Ok(check.flatten().unwrap_or_default())
}

/// The one algorithm of checksums of a file that cover all bytes of its tensors.
fn covering_all<S: ModelSource>(coverage: &Coverage, shard: &Shard<S>) -> Option<Algorithm> {
    let any = coverage.algorithms().first().copied()?;
    let open = shard.opened.try_lock().and_then(|open| open.clone())?;
    let mut covering = None;
    for tensor in open.index.tensors.iter() {
        for component in tensor.components.iter().filter(|component| !component.range.is_empty()) {
            let of_component = coverage.of_range(&component.range)?;
            if *covering.get_or_insert(of_component) != of_component {
                return None;
            }
        }
    }
    covering.or(Some(any)) // no bytes are left of a file without tensors
}

/// Compares the checksums of one file and returns what they cover.
async fn finish_file<S: ModelSource>(file: &Rc<ModelFile<S>>, plan: &FilePlan, sums: &Sums) -> Result<Coverage> {
    let crc32s = check_footers(file, plan).await?;
    let matched = plan.compare(&crc32s, |over, like| {
        sums.digest(over, like).ok_or_else(|| {
            Error::new(ErrorKind::Internal, "a file was not read completely, or not in order").at(over.clone())
        })
    });
    let matched = matched.map_err(|error| file.reject_if_corrupt(error))?;
    for (_, digest) in matched.iter().filter(|(over, _)| *over == (0..file.stored_length().unwrap_or(0))) {
        file.confirm_whole(digest);
    }
    Ok(Coverage::of(matched, file.stored_length().or_else(|| file.file_length())))
}

/// Checks the end of a file, and returns the CRC-32 values that its footers state.
pub(crate) async fn check_footers<S: ModelSource>(file: &Rc<ModelFile<S>>, plan: &FilePlan) -> Result<Vec<u32>> {
    if !file.is_raw {
        file.parse_with(format::check_tail).await?;
    }
    let mut crc32s = Vec::new();
    for at in plan.footers() {
        crc32s.push(crc32_at(file, at).await?);
    }
    Ok(crc32s)
}

async fn crc32_at<S: ModelSource>(file: &Rc<ModelFile<S>>, at: u64) -> Result<u32> {
    let range: Range<u64> = at..at.saturating_add(4);
    file.parse_with(|window| {
        let bytes = window.get(range.clone())?;
        Ok(bytes.try_into().map(u32::from_le_bytes).unwrap_or_default())
    })
    .await
}
