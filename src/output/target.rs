//! The traits of format writers: they check which tensors a format can store, and write files.

use super::file::{FinishedFile, PartialFile, ShardFile};
use super::losses::Losses;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use std::path::{Path, PathBuf};

/// A format to write, with the options of the caller.
pub trait Target {
    /// Checks whether the format can store the tensor. Records partial losses in `losses`.
    ///
    /// # Errors
    /// `UNSUPPORTED` and `LIMIT` if the format cannot store the tensor, with the reason.
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()>;

    /// Sorts the tensors of a file into the order in which they are written. The default is the order of the source.
    fn arrange(&self, tensors: &mut [Tensor]) {
        let _ = tensors;
    }

    /// Begins a file of these tensors, which have passed [`Target::check`].
    ///
    /// # Errors
    /// `IO`; `LIMIT` and `UNSUPPORTED` for tensors that the format cannot store.
    fn begin<'a>(
        &'a self,
        file: PartialFile,
        tensors: &'a [Tensor],
        place: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>>;

    /// Returns the support for models in several files; `None` if the format has none.
    fn sharded(&self) -> Option<&dyn Sharded> {
        None
    }
}

/// A file being written. Tensors are written once each, in order.
pub trait TensorFile {
    /// The offset of the next byte.
    fn position(&self) -> u64;

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()>;

    /// Adds a tensor that shares the bytes of the tensor that was written last; see [`shares_bytes`]. Returns false if
    /// the format cannot express that, so that the bytes must be written again.
    fn write_tied(&mut self, tensor: &Tensor) -> Result<bool> {
        let _ = tensor;
        Ok(false)
    }

    /// Writes the remaining parts: heads, checksums, footers.
    fn finish(self: Box<Self>) -> Result<FinishedFile>;
}

/// What the user can do if a format does not have the dtype of a tensor.
pub(crate) const CAST: &str = "Cast floats and quantized tensors with `ConvertOptions::dtype`, or choose a format that \
                               supports the dtype, such as ztensor.";

/// What the user can do if metadata and index take too many bytes.
pub(crate) const SMALLER_HEAD: &str = "Provide less metadata, or write several files of fewer tensors with \
                                       `ConvertOptions::max_shard_bytes`.";

/// Whether a tensor is written with the same bytes as the tensor before it. Both are in the dtypes of the new file.
pub fn shares_bytes(previous: &Tensor, tensor: &Tensor) -> bool {
    tensor.dtype == previous.dtype && tensor.shares_bytes_with(previous)
}

/// A source of the bytes of a tensor, in the dtype of the new file.
pub trait TensorSource {
    /// Reads a component in pieces, from its start, in the dtype of `wanted`.
    fn read_component(&mut self, wanted: &Component, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Whether reading again means to request the bytes again.
    fn is_remote(&self) -> bool {
        false
    }

    /// Reads the only component of a dense tensor in pieces, from its start.
    fn read(&mut self, wanted: &Tensor, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match wanted.components.as_slice() {
            [component] => self.read_component(component, take),
            _ => Err(Error::new(ErrorKind::Internal, "a tensor has several components instead of one")),
        }
    }
}

/// The position of a file in a model.
#[derive(Debug, Clone, Copy)]
pub struct ShardPosition {
    /// The number of the file, from 0.
    pub number: usize,
    /// The number of files of the model, without a manifest.
    pub count: usize,
    /// The number of tensors in all files.
    pub tensors: usize,
}

impl ShardPosition {
    pub(crate) fn kind(self) -> ShardKind {
        ShardKind::of(self.number)
    }
}

/// Which metadata a file of a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardKind {
    /// The first file has all of it.
    First,
    /// Other files have only what readers need.
    Other,
}

impl ShardKind {
    /// The kind of the file with this number, from 0.
    pub(crate) fn of(number: usize) -> Self {
        if number == 0 { ShardKind::First } else { ShardKind::Other }
    }
}

/// The size of a file in bytes, without compression.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileSize {
    pub head: u64,
    /// From the start of the first tensor to the end of the last, including padding.
    pub data: u64,
    pub tensors: u64,
}

/// A format that supports models in several files.
pub trait Sharded {
    /// Returns the length in bytes of a file of this size, or an upper bound.
    fn file_bytes(&self, size: &FileSize) -> u64;

    /// Returns the length of a file's head without tensors.
    fn empty_head_bytes(&self, kind: ShardKind) -> u64;

    /// Returns the number of bytes that a tensor adds to the head.
    fn entry_bytes(&self, tensor: &Tensor) -> u64;

    /// Returns the maximum length of the tensor's data, for incompressible data.
    ///
    /// # Errors
    /// `LIMIT` if the length overflows u64.
    fn max_data_bytes(&self, tensor: &Tensor) -> Result<u64>;

    /// Returns the alignment of tensors, relative to the start of the data.
    fn alignment(&self) -> u64;

    /// The maximum length of a file if the caller does not choose one. A format that has it writes a manifest for any
    /// number of files, because its files do not list their tensors.
    fn max_file_bytes(&self) -> Option<u64> {
        None
    }

    /// Checks the size of the head against the limits of readers. Called before anything is written.
    ///
    /// # Errors
    /// `LIMIT`.
    fn check_head(&self, size: &FileSize) -> Result<()> {
        let _ = size;
        Ok(())
    }

    /// Returns the path of a file of tensors, next to `out`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a manifest cannot contain the name.
    fn shard_path(&self, out: &Path, place: ShardPosition) -> Result<PathBuf>;

    /// Whether the first of several files has only metadata.
    fn begins_without_tensors(&self) -> bool {
        false
    }

    /// Returns the writer of the manifest; `None` if the files name each other.
    fn manifest(&self) -> Option<&dyn ManifestWriter>;
}

/// A format whose models in several files have a manifest.
pub trait ManifestWriter {
    /// Returns the path of the manifest: `out`, or the path next to it that the format's readers expect.
    fn manifest_path(&self, out: &Path) -> PathBuf {
        out.to_owned()
    }

    /// Returns the path of an index file next to the manifest, which [`ManifestWriter::write_manifest`] also writes.
    fn catalog_path(&self, manifest: &Path) -> Option<PathBuf> {
        let _ = manifest;
        None
    }

    /// Writes the manifest. The last returned file is the manifest; others are further files next to it, named as
    /// `naming` says.
    fn write_manifest(&self, manifest: PartialFile, shards: &[Shard], naming: Naming) -> Result<Vec<FinishedFile>>;
}

/// A finished file of tensors.
#[derive(Debug)]
pub struct Shard<'a> {
    pub file: &'a dyn ShardFile,
    pub tensors: &'a [Tensor],
}

/// The names of the files of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The usual names of the format, such as `model-00001-of-00003.apr`.
    Usual,
    /// Names with a digest of the content, such as `model-7d0f3c2a91b84e65.apr`, for files that never change.
    Content,
}
