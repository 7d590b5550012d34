//! Requests for tensors.

use crate::dtype::Dtype;
use crate::setters::setters;
use std::ops::Range;

/// Which part of a tensor to load, and the destination buffer.
#[derive(Debug)]
#[non_exhaustive]
pub struct TensorRequest<B> {
    /// Only these rows of the outermost dimension, as a half-open range.
    pub rows: Option<Range<u64>>,
    /// The buffer to write to, of exactly the length of the requested bytes. If `None`, a buffer is allocated.
    pub into: Option<B>,
    /// The dtype that floats and quantized elements are converted to while they arrive: F32, F16 or BF16. Tensors of
    /// integers and booleans keep their dtype. If `None`, all tensors do.
    pub dtype: Option<Dtype>,
    /// Whether a sparse tensor (`sparse_csr`, `sparse_coo`) is returned as a dense one. Its size must not exceed
    /// [`Options::max_memory_bytes`](crate::loader::Options::max_memory_bytes), unless `into` is given.
    pub is_dense: bool,
}

impl<B> TensorRequest<B> {
    setters! {
        with_rows rows: Option<Range<u64>>;
        with_into into: Option<B>;
        with_dtype dtype: Option<Dtype>;
        with_dense is_dense: bool;
    }
}

impl<B> Default for TensorRequest<B> {
    fn default() -> Self {
        TensorRequest { rows: None, into: None, dtype: None, is_dense: false }
    }
}

/// Which tensors to load, and how. By default all tensors, as they are stored.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TensorsRequest {
    /// The names of the tensors; `None` for all tensors.
    pub names: Option<Vec<String>>,
    /// The order in which they are read. Tensors in the given order come over one connection.
    pub order: Order,
    /// Like [`TensorRequest::dtype`].
    pub dtype: Option<Dtype>,
    /// Like [`TensorRequest::is_dense`].
    pub is_dense: bool,
}

impl TensorsRequest {
    setters! {
        with_names names: Option<Vec<String>>;
        with_order order: Order;
        with_dtype dtype: Option<Dtype>;
        with_dense is_dense: bool;
    }
}

/// The order in which the tensors of a call are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By their offsets in the files, with as few requests as possible.
    #[default]
    File,
    /// As the caller lists them.
    Given,
}
