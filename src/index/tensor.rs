//! Tensors: named arrays of numbers, made of components.

use super::{Component, Metadata, Quantized};
use crate::dtype::Dtype;
use std::sync::Arc;

/// A named array of numbers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Tensor {
    /// The name: any UTF-8, unique within a model.
    pub name: String,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The shape, outermost dimension first, for row-major order. Empty for a scalar.
    pub shape: Vec<u64>,
    /// How the components make up the tensor.
    pub layout: Layout,
    /// The parts of the file that contain the tensor. A dense tensor has one component, `data`.
    pub components: Vec<Component>,
    /// Further format-specific attributes (quantization, `param_id` …).
    pub attributes: Metadata,
    /// The number of the model's file that contains the tensor, counted from 0.
    pub shard: usize,
}

/// How a tensor is laid out in its components.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// One component, `data`, in row-major order.
    Dense,
    /// Compressed sparse rows: `values`, `indices`, `indptr`.
    SparseCsr,
    /// Coordinates: `values`, `coords`.
    SparseCoo,
    /// Codes, scales and more, from which floats are computed: see the attribute `quantization`. A weight that an
    /// adapter updates, from which and from the adapter's factors floats are computed, has this layout, too; its name
    /// is `adapted`.
    Quantized(Arc<Quantized>),
    /// Another layout. Its components are listed and loaded without interpretation.
    Other(Box<str>),
}

impl Layout {
    /// The layout's name, as zTensor spells it.
    pub fn name(&self) -> &str {
        match self {
            Layout::Dense => "dense",
            Layout::SparseCsr => "sparse_csr",
            Layout::SparseCoo => "sparse_coo",
            Layout::Quantized(quantized) if quantized.scheme.is_adapted() => "adapted",
            Layout::Quantized(_) => "quantized",
            Layout::Other(name) => name,
        }
    }
}

impl Tensor {
    /// A dense tensor of one component.
    #[doc(hidden)]
    pub fn dense(name: String, dtype: Dtype, shape: Vec<u64>, data: Component) -> Self {
        let (layout, attributes) = (Layout::Dense, Metadata::new());
        Tensor { name, dtype, shape, layout, components: vec![data], attributes, shard: 0 }
    }

    /// The decoded length in bytes over all components; `None` if it is unknown for one of them.
    pub fn byte_length(&self) -> Option<u64> {
        self.components.iter().try_fold(0u64, |sum, c| sum.checked_add(c.decoded_length?))
    }

    /// The stored length in bytes over all components.
    pub fn stored_length(&self) -> u64 {
        let lengths = self.components.iter().map(|c| c.range.end - c.range.start);
        lengths.fold(0, u64::saturating_add) // in a file of unknown length, the lengths are unchecked
    }

    /// Whether another tensor has exactly the same stored bytes, as tied weights have. Their dtypes and shapes may
    /// differ. Tensors without bytes share nothing.
    pub(crate) fn shares_bytes_with(&self, other_tensor: &Tensor) -> bool {
        let is_same = |(one, other): (&Component, &Component)| {
            let is_encoded_same = one.encoding == other.encoding
                && one.streams == other.streams
                && one.decoded_length == other.decoded_length;
            one.range == other.range && self.shard_of(one) == other_tensor.shard_of(other) && is_encoded_same
        };
        self.components.len() == other_tensor.components.len()
            && self.stored_length() > 0
            && self.components.iter().zip(&other_tensor.components).all(is_same)
    }

    /// The number of the model's file that contains a component.
    pub(crate) fn shard_of(&self, component: &Component) -> usize {
        self.quantized().and_then(|quantized| quantized.shard_of(self, component)).unwrap_or(self.shard)
    }

    /// The offset of the tensor's first byte in its file.
    #[doc(hidden)]
    pub fn first_byte(&self) -> u64 {
        let own = self.components.iter().filter(|component| self.shard_of(component) == self.shard);
        own.map(|component| component.range.start).min().unwrap_or(0)
    }
}
