//! The trait `StreamingLoader` of the APR specification.

use super::blocking::Model;
use super::tensor::LoadedTensor;
use crate::error::Result;
use crate::index::Tensor;
use crate::loader::ModelMetadata;

/// Loads a model incrementally: its metadata, the list of its tensors, then tensors on demand (APR-FORMAT-002,
/// "Streaming Load"). The calls of [`Model`] do the same, and more.
pub trait StreamingLoader {
    /// Loads the model's metadata.
    ///
    /// # Errors
    /// Errors of reading the head.
    fn load_metadata(&mut self) -> Result<ModelMetadata>;

    /// Lists every tensor, in file order.
    ///
    /// # Errors
    /// Errors of reading the heads of all files.
    fn load_index(&mut self) -> Result<Vec<Tensor>>;

    /// Loads and decodes a tensor, and verifies its digest, if it has one.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CHECKSUM` and `FORMAT` if its bytes are damaged; `LIMIT` if memory cannot be allocated.
    fn load_tensor(&mut self, name: &str) -> Result<LoadedTensor>;

    /// Announces tensors that will be loaded soon. Ignores errors, which `load_tensor` reports.
    fn prefetch(&mut self, names: &[&str]);
}

impl StreamingLoader for Model {
    fn load_metadata(&mut self) -> Result<ModelMetadata> {
        Ok(self.metadata().clone())
    }

    fn load_index(&mut self) -> Result<Vec<Tensor>> {
        Ok(self.tensors().to_vec())
    }

    fn load_tensor(&mut self, name: &str) -> Result<LoadedTensor> {
        self.load(name)
    }

    fn prefetch(&mut self, names: &[&str]) {
        Model::prefetch(self, names.iter().copied());
    }
}
