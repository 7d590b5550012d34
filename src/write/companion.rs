//! Files that are written with a model: the graph of an ONNX model.

use crate::error::Result;
use crate::index::Tensor;
use crate::output::file::FinishedFile;
use std::path::Path;

/// A file that is written and published together with a model.
pub trait Companion {
    /// The path of the file.
    fn path(&self) -> &Path;

    /// Whether a tensor must not be cast.
    fn keeps_dtype(&self, tensor: &Tensor) -> bool;

    /// Writes the file. `written` are the tensors of the model as they will be read from it, at the path `model`.
    fn write(&self, written: &[&Tensor], model: &Path) -> Result<FinishedFile>;
}
