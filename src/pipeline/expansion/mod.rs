//! Makes tensors of several components dense: sparse tensors, and those whose codes and scales are components.

mod quantized;
mod sparse;

pub(crate) use quantized::{Dequantization, QuantizedRows, Steps};
pub(crate) use sparse::SparseExpansion;

use super::LoadedComponent;
use crate::buffer::Buffer;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Layout, Tensor};

/// How a tensor becomes a dense one.
#[derive(Debug, Clone)]
pub(crate) enum Expansion {
    Sparse(SparseExpansion),
    Quantized(Dequantization),
}

impl Expansion {
    /// The expansion of a tensor to elements of the dtype `to`, or of its own dtype; `None` for a dense tensor.
    ///
    /// # Errors
    /// `UNSUPPORTED` for another layout, for values that cannot be converted, and for a quantized tensor that is
    /// ambiguous; `FORMAT` if the shape has more than 2^64 bytes.
    pub(crate) fn of(tensor: &Tensor, to: Option<&Dtype>) -> Result<Option<Expansion>> {
        match &tensor.layout {
            Layout::Dense => Ok(None),
            Layout::Quantized(_) => Dequantization::of(tensor, None, to).map(|one| Some(Expansion::Quantized(one))),
            _ => SparseExpansion::of(tensor, to).map(|one| Some(Expansion::Sparse(one))),
        }
    }

    /// The dtype of the dense elements.
    pub(crate) fn dtype(&self) -> &Dtype {
        match self {
            Expansion::Sparse(sparse) => &sparse.dtype,
            Expansion::Quantized(quantized) => &quantized.dtype,
        }
    }

    /// The size of the dense tensor in bytes.
    pub(crate) fn byte_length(&self) -> u64 {
        match self {
            Expansion::Sparse(sparse) => sparse.byte_length,
            Expansion::Quantized(quantized) => quantized.byte_length,
        }
    }

    /// Checks that the dense tensor is not larger than `max_bytes`, if a file of a few bytes can state any shape: that
    /// of a sparse tensor.
    ///
    /// # Errors
    /// `LIMIT`.
    pub(crate) fn check_size(&self, tensor: &Tensor, max_bytes: u64) -> Result<()> {
        let (Expansion::Sparse(SparseExpansion { byte_length, .. }), true) = (self, self.byte_length() > max_bytes)
        else {
            return Ok(());
        };
        let what = format!("as a dense tensor it has {byte_length} bytes, but the limit is {max_bytes}");
        let error = Error::new(ErrorKind::Limit, what).in_tensor(&tensor.name);
        Err(error
            .advise("Raise the limit (`maxMemory`, `max_memory_bytes`), or load its components as they are stored."))
    }

    /// Computes the dense elements in a new buffer, in that of a component, or in `into`, which has their length.
    /// Returns the component `data` of the dense tensor.
    ///
    /// # Errors
    /// `UNSUPPORTED` if two values have the same position, because readers differ in what they mean; `FORMAT` if
    /// components are shorter than the shape needs; `LIMIT` if there is not enough memory.
    pub(crate) fn expand<B: Buffer>(
        &self,
        tensor: &Tensor,
        components: Vec<LoadedComponent<B>>,
        into: Option<B>,
    ) -> Result<LoadedComponent<B>> {
        let buffer = match self {
            Expansion::Sparse(sparse) => sparse.placed(tensor, &components, into),
            Expansion::Quantized(quantized) => quantized.decoded(tensor, components, into),
        };
        let buffer = buffer.map_err(|e| e.in_tensor(&tensor.name))?;
        Ok(LoadedComponent { role: "data".into(), dtype: self.dtype().clone(), buffer })
    }
}
