//! The checksums of whole files: which are compared, and the bytes that a call has not read yet.

use crate::deferred::Code;
use crate::error::Result;
use crate::format::{self, Expected, RangeChecksum};
use crate::index::Tensors;
use crate::loader::Loader;
use crate::loader::schedule::file_checks::WholeChecks;
#[cfg(all(http_client, writes))]
use crate::loader::schedule::file_checks::check_footers;
use crate::loader::shard::Shard;
use crate::loader::transfer::file::ModelFile;
use crate::source::ModelSource;
use crate::trust::{FilePlan, StatedDigests};

/// What a call does with the digests of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorDigests {
    Compared,
    NotCompared,
}

impl<S: ModelSource> Loader<S> {
    /// What is compared if a call reads all bytes of all files: the checksums in the files, in the manifest, those that
    /// the caller pinned, and those of a hub. If the call compares the digests of tensors, too, strong digests that a
    /// file states over tensors are left out if all its tensors have strong digests: digesting the bytes twice would
    /// take twice the time.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a pinned digest of a file of unknown length; errors of the source.
    pub(crate) async fn file_plans(&self, of_tensors: TensorDigests) -> Result<Vec<FilePlan>> {
        let mut plans = Vec::new();
        for shard in &self.shards {
            let (Shard { file, opened, .. }, part) = (shard, shard.part());
            let by_caller = self.options.digests.of_file(&file.source, part).map(|(_, digest)| digest);
            let stated = StatedDigests {
                manifest: part.and_then(|part| part.digest),
                pinned: file.signed_digest().or(by_caller),
                host: file.source.stated_digest().filter(|_| file.joined.is_none()),
            };
            if file.length().is_none() && stated.are_any() {
                file.learn_length().await?;
            }
            let mut in_file = checksums_in_file(file)?;
            if of_tensors == TensorDigests::Compared
                && let Some(open) = opened.try_lock().and_then(|open| open.clone())
            {
                remove_redundant(&mut in_file, &open.index.tensors);
            }
            let plan = FilePlan::new(in_file, stated, file.length(), file.stored_length());
            let plan = plan.map_err(|e| e.in_file(file.source.name()))?;
            plans.push(plan.with_states(part.map_or(&[], |part| &part.states)));
        }
        Ok(plans)
    }

    /// Reads what is missing for the checksums of all files, and compares them.
    pub(crate) async fn compare_rest(&self, whole: &WholeChecks) -> Result<()> {
        for (shard, Shard { file, .. }) in self.shards.iter().enumerate() {
            while let Some(range) = whole.missing(shard) {
                file.source.host().load_code(Code::Extras).await?; // most calls read all that the checksums need
                self.read_stored(shard, range, &mut |at, bytes| whole.update(shard, at, bytes)).await?;
            }
        }
        whole.finish(&self.shards).await
    }

    /// Checks the end of a file, and returns the CRC-32 values that its footers state.
    #[cfg(all(http_client, writes))]
    pub(crate) async fn footers(&self, shard: usize, plan: &FilePlan) -> Result<Vec<u32>> {
        match self.shards.get(shard) {
            Some(shard) => check_footers(&shard.file, plan).await,
            None => Ok(Vec::new()),
        }
    }
}

fn checksums_in_file<S: ModelSource>(file: &ModelFile<S>) -> Result<Vec<RangeChecksum>> {
    match file.is_raw {
        true => Ok(Vec::new()),
        false => Ok(file.try_parse(format::checksums)?.unwrap_or_default()),
    }
}

/// Removes strong digests over tensors, if all tensors have strong digests or are in pages with digests.
fn remove_redundant(checksums: &mut Vec<RangeChecksum>, tensors: &Tensors) {
    let is_strong =
        |checksum: &RangeChecksum| matches!(checksum.stated, Expected::Digest(digest) if digest.is_strong());
    if !checksums.iter().any(is_strong) {
        return;
    }
    let mut starts = Vec::new();
    for tensor in tensors.iter() {
        for component in tensor.components.iter().filter(|component| !component.range.is_empty()) {
            let has_strong_digest = component.digest.is_some_and(|own| own.digest.is_strong());
            if !has_strong_digest && component.pages_of_whole().is_none() {
                return;
            }
            starts.push(component.range.start);
        }
    }
    starts.sort_unstable();
    checksums.retain(|checksum| {
        let first = starts.partition_point(|start| *start < checksum.over.start);
        !is_strong(checksum) || starts.get(first).is_none_or(|start| *start >= checksum.over.end)
    });
}
