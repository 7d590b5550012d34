//! Which tensors to load, and how.

use crate::dtype::Dtype;
use crate::loader::{Order, TensorRequest, TensorsRequest};
use crate::on_progress::{OnProgress, Progress};
use std::ops::Range;

/// One tensor to load, and how. Names convert to it: `model.load("bias")`.
///
/// ```
/// # use weightstream::{Dtype, LoadRequest};
/// let rows_as_floats = LoadRequest::new("embeddings.weight").rows(0..128).dtype(Dtype::F32);
/// ```
#[derive(Debug, Clone)]
pub struct LoadRequest {
    pub(super) name: String,
    pub(super) rows: Option<Range<u64>>,
    pub(super) dtype: Option<Dtype>,
    pub(super) is_dense: bool,
    pub(super) on_progress: OnProgress,
}

impl LoadRequest {
    /// The whole tensor, as it is stored.
    pub fn new(name: impl Into<String>) -> Self {
        LoadRequest { name: name.into(), rows: None, dtype: None, is_dense: false, on_progress: OnProgress::default() }
    }

    /// Loads only these rows of the outermost dimension. Reads only their bytes where the file allows it.
    #[must_use]
    pub fn rows(self, rows: Range<u64>) -> Self {
        LoadRequest { rows: Some(rows), ..self }
    }

    /// Converts floats and quantized elements to F32, F16 or BF16 while they arrive. Tensors of integers and booleans
    /// keep their dtype.
    #[must_use]
    pub fn dtype(self, dtype: Dtype) -> Self {
        LoadRequest { dtype: Some(dtype), ..self }
    }

    /// Loads a sparse tensor as a dense one, which must not be larger than
    /// [`OpenOptions::max_memory_bytes`](crate::OpenOptions::max_memory_bytes).
    #[must_use]
    pub fn dense(self) -> Self {
        LoadRequest { is_dense: true, ..self }
    }

    /// Calls `callback` with the progress of this load, in place of that of the model's options.
    #[must_use]
    #[cfg(native)]
    pub fn on_progress(self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        LoadRequest { on_progress: OnProgress::new(callback), ..self }
    }

    /// Calls `callback` with the progress of this load, in place of that of the model's options.
    #[must_use]
    #[cfg(web)]
    pub fn on_progress(self, callback: impl Fn(Progress) + 'static) -> Self {
        LoadRequest { on_progress: OnProgress::new(callback), ..self }
    }

    /// The name, and the request to the loader.
    pub(super) fn into_parts<B>(self) -> (String, TensorRequest<B>) {
        let request = TensorRequest::default().with_rows(self.rows).with_dtype(self.dtype).with_dense(self.is_dense);
        (self.name, request)
    }
}

impl<N: Into<String>> From<N> for LoadRequest {
    fn from(name: N) -> Self {
        LoadRequest::new(name)
    }
}

/// Which tensors to load, one after the other, and how. By default all, as they are stored, in file order.
///
/// ```
/// # use weightstream::{Dtype, StreamRequest};
/// let all_as_floats = StreamRequest::new().dtype(Dtype::F32);
/// let two_in_this_order = StreamRequest::new().names(["encoder.weight", "encoder.bias"]).in_given_order();
/// ```
#[derive(Debug, Clone, Default)]
pub struct StreamRequest {
    names: Option<Vec<String>>,
    order: Order,
    dtype: Option<Dtype>,
    is_dense: bool,
    pub(super) on_progress: OnProgress,
}

impl StreamRequest {
    /// All tensors, as they are stored, in file order. At their end, the checksums of whole files are verified, too.
    pub fn new() -> Self {
        StreamRequest::default()
    }

    /// Loads only these tensors.
    #[must_use]
    pub fn names<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        StreamRequest { names: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Loads the tensors in the order of their names in [`StreamRequest::names`], over one connection. By default, they
    /// are read in the order of the file, with as few requests as possible, and over several connections tensors may
    /// overtake each other.
    #[must_use]
    pub fn in_given_order(self) -> Self {
        StreamRequest { order: Order::Given, ..self }
    }

    /// Like [`LoadRequest::dtype`].
    #[must_use]
    pub fn dtype(self, dtype: Dtype) -> Self {
        StreamRequest { dtype: Some(dtype), ..self }
    }

    /// Like [`LoadRequest::dense`].
    #[must_use]
    pub fn dense(self) -> Self {
        StreamRequest { is_dense: true, ..self }
    }

    /// Like [`LoadRequest::on_progress`].
    #[must_use]
    #[cfg(native)]
    pub fn on_progress(self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        StreamRequest { on_progress: OnProgress::new(callback), ..self }
    }

    /// Like [`LoadRequest::on_progress`].
    #[must_use]
    #[cfg(web)]
    pub fn on_progress(self, callback: impl Fn(Progress) + 'static) -> Self {
        StreamRequest { on_progress: OnProgress::new(callback), ..self }
    }

    /// The request to the loader.
    pub(super) fn into_inner(self) -> TensorsRequest {
        let request = TensorsRequest::default().with_names(self.names).with_order(self.order);
        request.with_dtype(self.dtype).with_dense(self.is_dense)
    }
}
