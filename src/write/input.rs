//! The source of the tensors to write.

use super::cast::Cast;
use super::check_cancelled;
use super::checked::Checked;
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use crate::loader::ModelMetadata;
use crate::native::Reader;
use crate::output::target::TensorSource;
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

/// The files whose digests a call compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All files.
    Whole,
    /// The files of tensors that were read and have no digests of their own.
    Read,
}

impl Input for Reader {
    fn metadata(&self) -> &ModelMetadata {
        Reader::metadata(self)
    }

    fn tensors(&self) -> &[Tensor] {
        Reader::tensors(self)
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Reader::read_pieces(self, &tensor.name, role, emit).map(drop)
    }

    fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        Reader::parse_first(self, parse)
    }

    fn modified(&self) -> Option<SystemTime> {
        Reader::paths(self).next().and_then(|path| path.metadata().ok()?.modified().ok())
    }

    fn version(&self) -> Option<String> {
        let mut version = String::new();
        for path in Reader::paths(self) {
            let metadata = path.metadata().ok()?;
            let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            version.push_str(&format!("{} bytes, modified {} ms; ", metadata.len(), modified.as_millis()));
        }
        Some(version).filter(|version| !version.is_empty())
    }

    fn paths(&self) -> Vec<&Path> {
        Reader::paths(self).collect()
    }

    fn begin(&self) -> Result<Option<Box<dyn Input + '_>>> {
        Ok(Some(Box::new(Checked::begin(self)?)))
    }
}

#[cfg(all(feature = "http", not(target_arch = "wasm32")))]
impl<S: crate::source::Source> Input for crate::native::RemoteReader<S> {
    fn metadata(&self) -> &ModelMetadata {
        Self::metadata(self)
    }

    fn tensors(&self) -> &[Tensor] {
        Self::tensors(self)
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Self::read_pieces(self, tensor, role, emit).map(drop)
    }

    fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        Self::parse_first(self, parse)
    }

    fn version(&self) -> Option<String> {
        Self::version(self)
    }

    fn urls(&self) -> Vec<&str> {
        Self::urls(self).collect()
    }

    fn begin(&self) -> Result<Option<Box<dyn Input + '_>>> {
        Ok(Some(Box::new(Checked::begin(self)?)))
    }
}

/// The bytes of a tensor to write, cast to another dtype if requested.
pub(super) struct InputTensor<'a> {
    input: &'a dyn Input,
    /// The tensor of the input.
    tensor: &'a Tensor,
    progress: &'a (dyn Progress + Sync),
    /// The number of bytes that have been reported as progress.
    counted: u64,
}

impl<'a> InputTensor<'a> {
    pub(super) fn new(input: &'a dyn Input, tensor: &'a Tensor, progress: &'a (dyn Progress + Sync)) -> Self {
        InputTensor { input, tensor, progress, counted: 0 }
    }

    /// The decoded size in the dtype of the input; if the file does not state it, the bytes that were read.
    pub(super) fn decoded_bytes(&self) -> u64 {
        self.tensor.byte_length().unwrap_or(self.counted)
    }
}

impl TensorSource for InputTensor<'_> {
    fn read_component(&mut self, wanted: &Component, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let InputTensor { input, tensor, progress, counted } = self;
        let mut components = tensor.components.iter();
        let stored = components.find(|component| component.role == wanted.role);
        let stored = stored.ok_or_else(|| Error::new(ErrorKind::Internal, "the component to write does not exist"))?;
        let cast = (stored.dtype != wanted.dtype).then(|| Cast::new(&stored.dtype, &wanted.dtype)).transpose()?;
        let elements = element_count(&tensor.shape)?;
        let mut cast = cast.map(|cast| cast.with_elements(elements));
        let mut position = 0;
        input.read_pieces(tensor, &stored.role, &mut |bytes| {
            check_cancelled(*progress)?;
            if bytes.is_empty() {
                return Ok(()); // an empty piece only checks for cancellation
            }
            match &mut cast {
                Some(cast) => cast.push(bytes, take)?,
                None => take(bytes)?,
            }
            position += bytes.len() as u64;
            progress.advanced(position.saturating_sub(*counted));
            *counted = position.max(*counted);
            Ok(())
        })?;
        cast.map_or(Ok(()), Cast::finish)
    }
}
