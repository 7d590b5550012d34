//! The four verbs, as the APR specification's `StreamingLoader` trait has them.

use super::{Reader, component};
use crate::error::Result;
use crate::index::Tensor;
use crate::loader::{LoadedComponent, ModelMetadata};

/// Loads a model bit by bit: what the model says of itself, the list of its tensors, then tensors on demand
/// (APR-FORMAT-002, "Streaming Load"). [`Loader`](crate::loader::Loader) has the same verbs, asynchronous.
pub trait StreamingLoader {
    /// What the model says of itself.
    ///
    /// # Errors
    /// Those of reading the head.
    fn load_metadata(&mut self) -> Result<ModelMetadata>;

    /// Every tensor, in file order.
    ///
    /// # Errors
    /// Those of reading the heads of all files.
    fn load_index(&mut self) -> Result<Vec<Tensor>>;

    /// One tensor, decoded and checked by its digest, if it has one.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CHECKSUM` and `FORMAT` where its bytes are damaged; `LIMIT` where there is no memory for it.
    fn load_tensor(&mut self, name: &str) -> Result<LoadedTensor>;

    /// Says which tensors will be loaded soon. What cannot be prefetched is left to `load_tensor`, which reports.
    fn prefetch(&mut self, names: &[&str]);
}

/// A tensor with its bytes.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedTensor {
    /// What the index says of it.
    pub tensor: Tensor,
    /// Its components, in the order of the index.
    pub components: Vec<LoadedComponent<Vec<u8>>>,
    /// The algorithm by which the tensor's own bytes were checked, if the format has a digest for them.
    pub verified: Option<&'static str>,
}

impl StreamingLoader for Reader {
    fn load_metadata(&mut self) -> Result<ModelMetadata> {
        Ok(self.metadata().clone())
    }

    fn load_index(&mut self) -> Result<Vec<Tensor>> {
        Ok(self.tensors().to_vec())
    }

    fn load_tensor(&mut self, name: &str) -> Result<LoadedTensor> {
        let tensor = self.tensor(name)?;
        let file = self.file(tensor)?;
        let load = || {
            let (mut components, mut algorithms) = (Vec::new(), Vec::new());
            for part in &tensor.components {
                let (buffer, verified) = component::decode(&file.bytes.storage, part)?;
                components.push(LoadedComponent { role: part.role.clone(), dtype: part.dtype.clone(), buffer });
                algorithms.push(verified.or(file.check_pages(part)?));
            }
            // One component without a digest, and the tensor as a whole is unverified.
            let verified = algorithms.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.first().copied());
            Ok(LoadedTensor { tensor: tensor.clone(), components, verified })
        };
        load().map_err(|e: crate::error::Error| e.in_tensor(name).in_file(&file.bytes.name))
    }

    fn prefetch(&mut self, names: &[&str]) {
        for tensor in names.iter().filter_map(|name| self.tensor(name).ok()) {
            for part in &tensor.components {
                self.file(tensor).map(|file| file.bytes.storage.will_need(&part.range)).ok();
            }
        }
    }
}
