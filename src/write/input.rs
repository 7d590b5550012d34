//! The source of the tensors to write.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::loader::ModelMetadata;
use crate::progress::Progress;
use crate::window::{Stop, Window};
use std::path::Path;
use std::time::SystemTime;

/// A model that can be converted.
pub trait Input {
    /// The model's format, version and metadata.
    fn metadata(&self) -> &ModelMetadata;

    /// Every tensor, in file order.
    fn tensors(&self) -> &[Tensor];

    /// Reads a component in pieces, in order, from its start, and verifies it as far as its format allows. Called for
    /// the tensors in their order, and twice for a tensor if `Compression::Auto` tries both compressed and raw. While
    /// an implementation waits for bytes, it should emit empty pieces regularly: `emit` fails when the conversion is
    /// cancelled.
    ///
    /// # Errors
    /// Errors of reading or verifying the bytes; errors of `emit`.
    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Runs a parser over the first file of the model. Needed to split graph and weights.
    ///
    /// # Errors
    /// `UNSUPPORTED` unless implemented; errors of reading and of the parser.
    #[doc(hidden)]
    fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        let _ = parse;
        let what = "this model is not read from a file, so that its graph is unknown";
        Err(Error::new(ErrorKind::Unsupported, what))
    }

    /// When the model's file was last modified; `None` if that is unknown. Formats that state when weights were created
    /// have this time, so that the same file always gives the same bytes.
    fn modified(&self) -> Option<SystemTime> {
        None
    }

    /// Identifies the version of the model's files: their lengths, and their ETags or when they were last modified.
    /// `None` if that is unknown. A conversion that was interrupted is continued only with the same version.
    fn version(&self) -> Option<String> {
        None
    }

    /// The files that must not be overwritten while the model is read.
    fn paths(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// The URLs of the files that must not be overwritten while the model is read.
    fn urls(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Begins a call that passes the model's bytes on. Digests of whole files are then computed while tensors are read,
    /// and [`Input::compare_files`] of the returned model compares them. `None` if there are no such digests.
    ///
    /// # Errors
    /// Errors of reading the files.
    fn begin(&self) -> Result<Option<Box<dyn Input + '_>>> {
        Ok(None)
    }

    /// Compares the digests of whole files: those that the format, a manifest, a hub and the caller state. Must be
    /// called before anything that was read is passed on. Reads the bytes of the files that were not read yet. Returns
    /// the files that were not compared, because more of them would have to be read than was read: only for
    /// [`Extent::Read`], and only at URLs.
    ///
    /// # Errors
    /// `CHECKSUM` if a digest does not match; errors of reading; `IO` if `progress` cancels.
    fn compare_files(&self, extent: Extent, progress: &(dyn Progress + Sync)) -> Result<Vec<String>> {
        let _ = (extent, progress);
        Ok(Vec::new())
    }
}

/// What gives an [`Input`]: a [`Model`](crate::blocking::Model).
pub trait AsInput {
    /// Calls `work` once with the input, on any thread.
    ///
    /// # Errors
    /// Errors of opening the model; those of `work`.
    fn with_input(&self, work: &mut (dyn FnMut(&dyn Input) -> Result<()> + Send)) -> Result<()>;
}

/// The files whose digests a call compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All files.
    Whole,
    /// The files of tensors that were read and have no digests of their own.
    Read,
}
