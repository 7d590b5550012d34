//! Loads whole tensors.

use super::Reader;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::index::{Algorithm, Tensor};
use crate::pipeline::{Expansion, LoadedComponent, check_indices};

/// A tensor with its bytes.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedTensor {
    /// The tensor's entry in the index.
    pub tensor: Tensor,
    /// The components, in the order of the index.
    pub components: Vec<LoadedComponent<Vec<u8>>>,
    /// The algorithm of the verified digest of the tensor's bytes, if the format has one.
    pub verified: Option<Algorithm>,
}

impl LoadedTensor {
    /// Makes a sparse tensor (`sparse_csr`, `sparse_coo`) dense: its only component is then `data`, with elements of
    /// the dtype `to` (F32, F16 or BF16), or as they are stored. A small file can state any shape: `max_bytes` limits
    /// the size of the dense tensor. A tensor that is dense already is returned as it is; [`Reader::read_pieces_as`]
    /// converts it.
    ///
    /// # Errors
    /// `LIMIT` if the dense tensor is larger than `max_bytes`; `UNSUPPORTED` for another layout, for values that cannot
    /// be converted, and for two values of one element.
    pub fn into_dense(self, to: Option<&Dtype>, max_bytes: u64) -> Result<LoadedTensor> {
        let LoadedTensor { tensor, components, verified } = self;
        let Some(expansion) = Expansion::of(&tensor, to)? else {
            return Ok(LoadedTensor { tensor, components, verified });
        };
        expansion.check_size(&tensor, max_bytes)?;
        let components = vec![expansion.expand(&tensor, components, None)?];
        Ok(LoadedTensor { tensor, components, verified })
    }
}

impl Reader {
    /// Loads and decodes a tensor, and verifies its digest, if it has one.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CHECKSUM` and `FORMAT` if its bytes are damaged; `LIMIT` if memory cannot be allocated.
    pub fn load_tensor(&self, name: &str) -> Result<LoadedTensor> {
        self.load(self.tensor(name)?)
    }

    /// Announces tensors that will be loaded soon. Ignores names that the model does not have.
    pub fn prefetch(&self, names: &[&str]) {
        for tensor in names.iter().filter_map(|name| self.tensor(name).ok()) {
            for part in &tensor.components {
                self.file_of(tensor, part).map(|file| file.bytes.storage.will_need(&part.range)).ok();
            }
        }
    }

    /// Loads and verifies a tensor of this reader.
    pub(super) fn load(&self, tensor: &Tensor) -> Result<LoadedTensor> {
        let load = || {
            let (mut components, mut algorithms) = (Vec::new(), Vec::new());
            for part in &tensor.components {
                let file = self.file_of(tensor, part)?;
                let (buffer, verified) = file.load(part).map_err(|e| e.in_file(&file.bytes.name))?;
                components.push(LoadedComponent { role: part.role.clone(), dtype: part.dtype.clone(), buffer });
                algorithms.push(verified);
            }
            check_indices(tensor, &components)?;
            // A tensor counts as verified only if all of its components have a digest.
            let first = algorithms.first().copied().flatten();
            let verified = first.filter(|_| algorithms.iter().all(|algorithm| *algorithm == first));
            Ok(LoadedTensor { tensor: tensor.clone(), components, verified })
        };
        let own = self.files.get(tensor.shard).map_or("", |file| file.bytes.name.as_str());
        load().map_err(|e: crate::error::Error| e.in_tensor(&tensor.name).in_file(own))
    }
}
