//! Quantized tensors whose codes, scales and zero points are tensors of their own in the file.

use super::{Component, Layout, Tensor};
use crate::dtype::{Dtype, element_count};
use crate::error::Result;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How the components of a quantized tensor make up its values. `quantization` creates it.
#[derive(Clone)]
pub struct Quantized {
    /// The tensors of the file that are the components, in the same order.
    pub(crate) parts: Vec<PartTensor>,
    pub(crate) scheme: Arc<dyn Scheme>,
}

/// A tensor of the file that is a component of a quantized tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartTensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    /// The number of the model's file that contains it.
    pub(crate) shard: usize,
}

/// How codes become floats. The tensor is a matrix, as of [`matrix_of`]. The order of the components is that of
/// [`Quantized::parts`].
pub(crate) trait Scheme: fmt::Debug + Send + Sync {
    /// Checks that the values can be computed.
    ///
    /// # Errors
    /// `UNSUPPORTED` if the codes may have several meanings; the error states what to specify.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the values are those of a weight that an adapter updates. They are then loaded in the tensor's dtype
    /// unless another one is requested, because components are of no use on their own.
    fn is_adapted(&self) -> bool {
        false
    }

    /// The component whose bytes the values of the dtype `to` may replace: rows of it are as long as those of the
    /// values, and only needed for these. `None` if there is no such component.
    fn replaced_by_values(&self, _to: &Dtype) -> Option<usize> {
        None
    }

    /// The bytes of each component that these rows need.
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes>;

    /// Computes the values of rows from these bytes, in row-major order, as they are rounded before they are converted
    /// to the dtype `to`. Reads zeros where bytes are missing.
    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], to: &Dtype, out: &mut [f32]);
}

/// The number of rows and columns of a shape as a matrix: its last dimension has the columns, all others together the
/// rows. A vector is one column, so that parts of it are rows, and a scalar one element.
///
/// # Errors
/// `FORMAT` if the number of elements is more than 2^64.
pub(crate) fn matrix_of(shape: &[u64]) -> Result<[u64; 2]> {
    Ok(match shape {
        [length] => [*length, 1],
        [leading @ .., columns] => [element_count(leading)?, *columns],
        [] => [1, 1],
    })
}

/// Bytes of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// A range.
    Range(Range<u64>),
    /// The same `columns` of each of `count` rows of `row_bytes` bytes, one row after another.
    Columns { columns: Range<u64>, row_bytes: u64, count: u64 },
}

impl Bytes {
    /// The range of the component that contains the bytes.
    pub(crate) fn bounds(&self) -> Range<u64> {
        match self {
            Bytes::Range(range) => range.clone(),
            Bytes::Columns { row_bytes, count, .. } => 0..row_bytes.saturating_mul(*count),
        }
    }
}

impl Quantized {
    /// The number of the file that contains a component of `tensor`, whose components all have different roles.
    pub(crate) fn shard_of(&self, tensor: &Tensor, component: &Component) -> Option<usize> {
        let at = tensor.components.iter().position(|own| own.role == component.role)?;
        self.parts.get(at).map(|part| part.shard)
    }
}

impl Tensor {
    /// How the values of a quantized tensor of several components are computed; `None` for any other tensor.
    pub(crate) fn quantized(&self) -> Option<&Quantized> {
        match &self.layout {
            Layout::Quantized(quantized) => Some(quantized),
            _ => None,
        }
    }

    /// Whether the tensor is a weight that an adapter updates.
    pub(crate) fn is_adapted(&self) -> bool {
        self.quantized().is_some_and(|quantized| quantized.scheme.is_adapted())
    }

    /// The tensors of the file that are the components of a quantized tensor, each as a dense tensor. Any other tensor
    /// is its only part.
    pub(crate) fn stored_parts(&self) -> Vec<Tensor> {
        let Some(quantized) = self.quantized() else { return vec![self.clone()] };
        // The attribute of a single part states its scales. Several parts have them.
        let attributes = || if quantized.parts.len() == 1 { self.attributes.clone() } else { super::Metadata::new() };
        let dense = |(part, component): (&PartTensor, &Component)| {
            let data = Component { role: super::DATA.into(), ..component.clone() };
            let shard = part.shard;
            let part = Tensor::dense(part.name.clone(), data.dtype.clone(), part.shape.clone(), data);
            Tensor { shard, attributes: attributes(), ..part }
        };
        quantized.parts.iter().zip(&self.components).map(dense).collect()
    }
}

impl fmt::Debug for Quantized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quantized").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// The scheme follows from the parts and the tensor's attributes.
impl PartialEq for Quantized {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Quantized {}
