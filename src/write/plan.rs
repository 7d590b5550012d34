//! The files of a conversion, and writing them.

use super::Sizes;
use super::input::Input;
use super::input_tensor::InputTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::output::file::ShardFile;
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::target::{Naming, Shard, ShardPosition, Target, shares_bytes};
use crate::progress::Progress;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The files to write.
pub struct Plan<'a> {
    target: &'a dyn Target,
    out: &'a Path,
    /// The files of tensors.
    pub shard_paths: Vec<PathBuf>,
    /// The tensors of each file.
    pub shards: Vec<&'a [Tensor]>,
    /// The manifest, if the format has one, and there are several files or it has one for each model.
    manifest_path: Option<PathBuf>,
    /// The index file of the manifest, if the format has one.
    catalog_path: Option<PathBuf>,
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("out", &self.out).field("shard_paths", &self.shard_paths).finish_non_exhaustive()
    }
}

impl<'a> Plan<'a> {
    /// Decides which files are written: `files` has the range of tensors of each.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a manifest cannot contain the names of the files.
    pub fn new(target: &'a dyn Target, out: &'a Path, files: Vec<Range<usize>>, tensors: &'a [Tensor]) -> Result<Self> {
        let shards: Vec<_> = files.into_iter().map(|range| tensors.get(range).unwrap_or_default()).collect();
        let count = shards.len();
        let several = target.sharded().filter(|format| count > 1 || format.max_file_bytes().is_some());
        let shard_paths = match several {
            Some(format) => {
                let path = |number| format.shard_path(out, ShardPosition { number, count, tensors: tensors.len() });
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
    pub fn model_path(&self) -> &Path {
        self.manifest_path.as_deref().or(self.shard_paths.first().map(PathBuf::as_path)).unwrap_or(self.out)
    }

    /// All files to write.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.shard_paths.iter().chain(&self.manifest_path).chain(&self.catalog_path).map(PathBuf::as_path)
    }

    /// Writes all files, and measures their tensors. The last file is the manifest, if there is one.
    ///
    /// # Errors
    /// Those of reading the model and of writing the files.
    pub fn write(&self, input: &dyn Input, progress: &(dyn Progress + Sync)) -> Result<(Vec<FinishedFile>, Sizes)> {
        let sources = Sources::of(input);
        // Created first: its lock prevents concurrent conversions to the same output.
        let manifest = self.manifest_path.as_ref().map(|path| PartialFile::create(path)).transpose()?;
        let (mut finished, mut sizes) = (Vec::new(), Sizes::default());
        for (number, path) in self.shard_paths.iter().enumerate() {
            let file = self.write_shard(number, PartialFile::create(path)?, &sources, progress, &mut sizes)?;
            // Without a manifest, the first file keeps its lock.
            finished.push(if manifest.is_some() || number > 0 { file.unlocked() } else { file });
        }
        if let Some(manifest) = manifest {
            let files = finished.iter().map(|file| file as &dyn ShardFile).collect::<Vec<_>>();
            let last = self.write_manifest(manifest, &files, Naming::Usual)?;
            finished.extend(last);
        }
        Ok((finished, sizes))
    }

    /// Writes one of the files of tensors.
    ///
    /// # Errors
    /// Those of reading the model and of writing the file.
    pub fn write_shard(
        &self,
        number: usize,
        file: PartialFile,
        sources: &Sources,
        progress: &(dyn Progress + Sync),
        sizes: &mut Sizes,
    ) -> Result<FinishedFile> {
        let place = ShardPosition {
            number,
            count: self.shards.len(),
            tensors: self.shards.iter().map(|tensors| tensors.len()).sum(),
        };
        let tensors = self.shards.get(number).copied().unwrap_or_default();
        let mut file = self.target.begin(file, tensors, place)?;
        let mut previous: Option<&Tensor> = None;
        for tensor in tensors {
            let source = sources.get(tensor)?;
            let is_tied = previous.replace(tensor).is_some_and(|previous| shares_bytes(previous, tensor));
            if is_tied && file.write_tied(tensor).map_err(|e| e.in_tensor(&tensor.name))? {
                progress.advanced(source.byte_length().unwrap_or(0));
                continue;
            }
            let mut input = InputTensor::new(sources.input, source, progress);
            let start = file.position();
            file.write_tensor(tensor, &mut input).map_err(|e| e.in_tensor(&tensor.name))?;
            let is_cast = tensor.dtype != source.dtype;
            sizes.source += input.decoded_bytes();
            sizes.cast += tensor.byte_length().filter(|_| is_cast).unwrap_or(input.decoded_bytes());
            sizes.stored += file.position() - start;
        }
        file.finish()
    }

    /// Writes the manifest of these files, which are those of the plan in order.
    ///
    /// # Errors
    /// `INTERNAL` if the format has no manifest; those of writing it.
    pub fn write_manifest(
        &self,
        manifest: PartialFile,
        files: &[&dyn ShardFile],
        naming: Naming,
    ) -> Result<Vec<FinishedFile>> {
        let writer = self.target.sharded().and_then(|format| format.manifest());
        let writer = writer.ok_or_else(|| Error::new(ErrorKind::Internal, "the format has no manifest"))?;
        let shards = files.iter().zip(&self.shards).map(|(file, tensors)| Shard { file: *file, tensors });
        writer.write_manifest(manifest, &shards.collect::<Vec<_>>(), naming)
    }
}

/// The tensors of the input by name.
pub struct Sources<'a> {
    /// The model that is read.
    pub input: &'a dyn Input,
    tensors: HashMap<&'a str, &'a Tensor>,
    /// The tensors that are parts of quantized ones.
    parts: HashMap<String, Tensor>,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

impl<'a> Sources<'a> {
    /// The tensors of a model.
    pub fn of(input: &'a dyn Input) -> Self {
        let quantized = input.tensors().iter().filter(|tensor| tensor.quantized().is_some() && !tensor.is_adapted());
        let parts = quantized.flat_map(Tensor::stored_parts).map(|part| (part.name.clone(), part)).collect();
        Sources { input, tensors: input.tensors().iter().map(|tensor| (&*tensor.name, tensor)).collect(), parts }
    }

    /// The tensor that a tensor of the new files is made from.
    ///
    /// # Errors
    /// `INTERNAL` if the model does not have it.
    pub fn get(&self, written: &Tensor) -> Result<&Tensor> {
        let missing = || Error::new(ErrorKind::Internal, "the tensor to write is not in the model");
        let part = self.parts.get(&written.name).filter(|part| part.dtype == written.dtype);
        part.or_else(|| self.tensors.get(&*written.name).copied()).ok_or_else(missing)
    }
}
