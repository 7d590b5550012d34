//! Dtypes that NumPy does not have, such as BF16: their elements are stored as opaque bytes, as `ml_dtypes` does, and
//! the metadata says what they are: the dtype of all elements of a size, and the tensors that differ.

use crate::dtype::Dtype;
use crate::index::Metadata;
#[cfg(writes)]
use crate::index::Tensor;
use serde_json::{Map, Value};

/// The key of the dtypes of elements, by what NumPy calls them: `{"V2": "BF16"}`.
const BY_SIZE: &str = "weightstream.dtypes";

/// The key of the dtypes of tensors that are different, by name.
const BY_NAME: &str = "weightstream.tensor_dtypes";

/// The dtypes of opaque elements.
#[derive(Debug, Default)]
pub(super) struct OpaqueDtypes {
    by_size: Map<String, Value>,
    by_name: Map<String, Value>,
}

impl OpaqueDtypes {
    /// Takes the dtypes out of the metadata.
    pub(super) fn take(metadata: &mut Metadata) -> Self {
        let mut object = |key: &str| match metadata.get(key) {
            Some(Value::Object(_)) => match metadata.shift_remove(key) {
                Some(Value::Object(object)) => object,
                _ => Map::new(),
            },
            _ => Map::new(),
        };
        OpaqueDtypes { by_size: object(BY_SIZE), by_name: object(BY_NAME) }
    }

    /// The dtype of a tensor whose elements have `bytes` bytes; `None` if they stay opaque.
    pub(super) fn of(&self, name: &str, bytes: u64) -> Option<Dtype> {
        let stated = self.by_name.get(name).or_else(|| self.by_size.get(&opaque(bytes)))?.as_str()?;
        Some(Dtype::from_name(stated)).filter(|dtype| element_bytes(dtype) == Some(bytes))
    }

    /// Adds the dtype of a tensor that is stored.
    #[cfg(writes)]
    pub(super) fn add(&mut self, tensor: &Tensor) {
        let Some(bytes) = element_bytes(&tensor.dtype).or_else(|| crate::output::npy::element_bytes(&tensor.dtype))
        else {
            return;
        };
        let stated = Value::from(tensor.dtype.name());
        if *self.by_size.entry(opaque(bytes)).or_insert_with(|| stated.clone()) != stated {
            self.by_name.insert(tensor.name.clone(), stated);
        }
    }

    /// Adds the dtypes to the metadata.
    #[cfg(writes)]
    pub(super) fn insert(self, metadata: &mut Metadata) {
        for (key, dtypes) in [(BY_SIZE, self.by_size), (BY_NAME, self.by_name)] {
            if !dtypes.is_empty() {
                metadata.insert(key.to_owned(), dtypes.into());
            }
        }
    }
}

/// The size of an element of a dtype with one element to a block.
pub(super) fn element_bytes(dtype: &Dtype) -> Option<u64> {
    dtype.block().filter(|block| block.elements == 1).map(|block| block.bytes)
}

/// What NumPy calls opaque elements of a size.
pub(super) fn opaque(bytes: u64) -> String {
    format!("V{bytes}")
}
