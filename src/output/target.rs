//! What a format does to be written: it says what it can hold, and writes one file of tensors after another.

use super::file::{FinishedFile, PartialFile};
use super::losses::Losses;
use super::shards::FileSize;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use std::path::{Path, PathBuf};

/// A format that models are written in, with what the caller wants of it.
pub(crate) trait Target {
    /// Whether a file of the format can hold the tensor; what of it is lost goes to `losses`.
    ///
    /// # Errors
    /// `UNSUPPORTED` and `LIMIT` where it cannot, in words that name what it is.
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()>;

    /// Brings the tensors of a file into the order in which they are written: that of the source, unless the format
    /// has a reason for another.
    fn arrange(&self, tensors: &mut [Tensor]) {
        let _ = tensors;
    }

    /// Begins a file of these tensors, which passed [`Target::check`].
    fn begin<'a>(&'a self, file: PartialFile, tensors: &'a [Tensor], place: Place) -> Result<Box<dyn TensorFile + 'a>>;

    /// How the format has a model in several files; `None` where it has no way.
    fn sharded(&self) -> Option<&dyn Sharded> {
        None
    }
}

/// A file that is being written. Its tensors come in their order, each once.
pub(crate) trait TensorFile {
    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()>;

    /// Writes what is left: heads, checksums, footers.
    fn finish(self: Box<Self>) -> Result<FinishedFile>;
}

/// The bytes of a tensor to write, in the dtype that the new file is to have.
pub(crate) trait TensorSource {
    /// Reads a component in pieces, from its start, in the dtype that `wanted` has.
    fn read_component(&mut self, wanted: &Component, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Reads the only component of a dense tensor in pieces, from its start.
    fn read(&mut self, wanted: &Tensor, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match wanted.components.as_slice() {
            [component] => self.read_component(component, take),
            _ => Err(Error::new(ErrorKind::Internal, "a tensor of several components was to be written as one")),
        }
    }
}

/// Which file of a model it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Counted from 0.
    pub(crate) number: usize,
    /// How many files of tensors there are.
    pub(crate) count: usize,
}

/// A format whose models may be in several files.
pub(crate) trait Sharded {
    /// The length of a file of these parts, in bytes, or more.
    fn file_bytes(&self, size: &FileSize) -> u64;

    /// The length of a file's head without tensors. The first one may have more to say of the model.
    fn empty_head_bytes(&self, is_first: bool) -> u64;

    /// Bytes that the tensor adds to the head.
    fn entry_bytes(&self, tensor: &Tensor) -> u64;

    /// The length of the tensor's data where it compresses worst.
    fn longest_data_bytes(&self, tensor: &Tensor) -> Result<u64>;

    /// At which multiples of bytes, from the start of the data, tensors begin.
    fn alignment(&self) -> u64;

    /// Whether a reader would take the head. Asked before anything is written.
    fn check_head(&self, size: &FileSize) -> Result<()> {
        let _ = size;
        Ok(())
    }

    /// The name of one of the files of tensors, beside `out`.
    fn shard_path(&self, out: &Path, place: Place) -> Result<PathBuf>;

    /// The file by which the model is opened: `out` itself, or one beside it that the format's readers expect.
    fn manifest_path(&self, out: &Path) -> PathBuf {
        out.to_owned()
    }

    /// A further file beside the manifest, which [`Sharded::write_manifest`] writes, too.
    fn catalog_path(&self, manifest: &Path) -> Option<PathBuf> {
        let _ = manifest;
        None
    }

    /// Writes what makes the files one model. The last file that it gives is the manifest; further ones lie beside it.
    fn write_manifest(&self, manifest: PartialFile, shards: &[Shard]) -> Result<Vec<FinishedFile>>;
}

/// A file of tensors that is whole.
#[derive(Debug)]
pub(crate) struct Shard<'a> {
    pub(crate) file: &'a FinishedFile,
    pub(crate) tensors: &'a [Tensor],
}
