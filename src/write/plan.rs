//! The files of a conversion, and writing them.

use super::Sizes;
use super::input::{Input, InputTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::target::{Place, Shard, Target, shares_bytes};
use crate::progress::Progress;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The files to write.
pub(super) struct Plan<'a> {
    target: &'a dyn Target,
    out: &'a Path,
    /// The files of tensors.
    pub(super) shard_paths: Vec<PathBuf>,
    pub(super) shards: Vec<&'a [Tensor]>,
    /// The manifest, if there are several files and the format has one.
    manifest_path: Option<PathBuf>,
    /// The index file of the manifest, if the format has one.
    catalog_path: Option<PathBuf>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        target: &'a dyn Target,
        out: &'a Path,
        files: Vec<Range<usize>>,
        tensors: &'a [Tensor],
    ) -> Result<Self> {
        let shards: Vec<_> = files.into_iter().map(|range| tensors.get(range).unwrap_or_default()).collect();
        let count = shards.len();
        let several = target.sharded().filter(|_| count > 1);
        let shard_paths = match several {
            Some(format) => {
                let path = |number| format.shard_path(out, Place { number, count, tensors: tensors.len() });
                (0..count).map(path).collect::<Result<_>>()?
            }
            None => vec![out.to_owned()],
        };
        let manifest = several.and_then(|format| format.manifest());
        let manifest_path = manifest.map(|manifest| manifest.manifest_path(out));
        let catalog_path = manifest_path.as_ref().zip(manifest).and_then(|(path, writer)| writer.catalog_path(path));
        Ok(Plan { target, out, shard_paths, shards, manifest_path, catalog_path })
    }

    /// The path to open the model with.
    pub(super) fn model_path(&self) -> &Path {
        self.manifest_path.as_deref().or(self.shard_paths.first().map(PathBuf::as_path)).unwrap_or(self.out)
    }

    /// All files to write.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.shard_paths.iter().chain(&self.manifest_path).chain(&self.catalog_path).map(PathBuf::as_path)
    }

    /// Writes all files, and measures their tensors. The last file is the manifest, if there is one.
    pub(super) fn write(
        &self,
        input: &dyn Input,
        progress: &(dyn Progress + Sync),
    ) -> Result<(Vec<FinishedFile>, Sizes)> {
        let sources: HashMap<&str, &Tensor> = input.tensors().iter().map(|tensor| (&*tensor.name, tensor)).collect();
        // Created first: its lock prevents concurrent conversions to the same output.
        let manifest = self.manifest_path.as_ref().map(|path| PartialFile::create(path)).transpose()?;
        let tensor_count = self.shards.iter().map(|tensors| tensors.len()).sum();
        let (mut finished, mut sizes) = (Vec::new(), Sizes::default());
        for (number, (path, tensors)) in self.shard_paths.iter().zip(&self.shards).enumerate() {
            let place = Place { number, count: self.shards.len(), tensors: tensor_count };
            let mut file = self.target.begin(PartialFile::create(path)?, tensors, place)?;
            let mut previous: Option<&Tensor> = None;
            for tensor in *tensors {
                let is_tied = previous.replace(tensor).is_some_and(|previous| shares_bytes(previous, tensor));
                if is_tied && file.write_tied(tensor).map_err(|e| e.in_tensor(&tensor.name))? {
                    progress.advanced(sources.get(&*tensor.name).and_then(|tensor| tensor.byte_length()).unwrap_or(0));
                    continue;
                }
                let missing = || Error::new(ErrorKind::Internal, "the tensor to write is not in the model");
                let source = sources.get(&*tensor.name).ok_or_else(missing)?;
                let mut input = InputTensor::new(input, source, progress);
                let start = file.position();
                file.write_tensor(tensor, &mut input).map_err(|e| e.in_tensor(&tensor.name))?;
                let is_cast = tensor.dtype != source.dtype;
                sizes.source += input.decoded_bytes();
                sizes.cast += tensor.byte_length().filter(|_| is_cast).unwrap_or(input.decoded_bytes());
                sizes.stored += file.position() - start;
            }
            let file = file.finish()?;
            // Without a manifest, the first file keeps its lock.
            finished.push(if manifest.is_some() || number > 0 { file.unlocked() } else { file });
        }
        let writer = self.target.sharded().and_then(|format| format.manifest());
        if let Some((manifest, writer)) = manifest.zip(writer) {
            let shards = finished.iter().zip(&self.shards).map(|(file, tensors)| Shard { file, tensors });
            let last = writer.write_manifest(manifest, &shards.collect::<Vec<_>>())?;
            finished.extend(last);
        }
        Ok((finished, sizes))
    }
}
