//! The tensors that a call loads, and the form in which it returns them.

use crate::codec::cast::Conversion;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::loader::schedule::rows::Rows;
use crate::pipeline::Expansion;
use crate::source::Buffer;
use std::sync::Arc;

/// A tensor to load.
pub(crate) struct PlannedTensor<B> {
    pub(crate) tensor: Arc<Tensor>,
    /// The rows to load, with their decoded bytes; `None` for all rows. Boxed, because a model may have 100,000
    /// tensors.
    pub(crate) rows: Option<Box<Rows>>,
    /// The caller's buffer for the bytes, if there is one.
    pub(crate) into: Option<B>,
    /// The conversion of the elements, if there is one. Only tensors of one component are converted.
    pub(crate) conversion: Option<Box<Conversion>>,
    /// The expansion to a dense tensor, if the tensor is sparse and a dense one is requested, or if it is quantized in
    /// several components and floats are requested.
    pub(crate) expansion: Option<Box<Expansion>>,
}

/// The form in which tensors are requested.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Form<'a> {
    /// The dtype of floats and quantized elements.
    pub(crate) dtype: Option<&'a Dtype>,
    /// Whether sparse tensors become dense ones.
    pub(crate) is_dense: bool,
}

impl Form<'_> {
    /// The form of a tensor: values of adapted ones are computed, also without a dtype.
    pub(crate) fn of(self, tensor: &Tensor) -> Self {
        Form { is_dense: self.is_dense || tensor.is_adapted(), ..self }
    }
}

impl<B> PlannedTensor<B> {
    /// Plans to load a tensor, or rows of it, in a form.
    pub(crate) fn new(tensor: Arc<Tensor>, rows: Option<Rows>, into: Option<B>, form: Form<'_>) -> Result<Self> {
        let is_expanded = form.is_dense || form.dtype.is_some() && tensor.quantized().is_some();
        let expansion = if is_expanded { Expansion::of(&tensor, form.dtype)?.map(Box::new) } else { None };
        let shape = rows.as_ref().map_or(&tensor.shape, |rows| &rows.shape);
        let conversion = form.dtype.filter(|_| expansion.is_none()).map(|to| Conversion::of(&tensor, shape, to));
        let conversion = conversion.transpose()?.flatten();
        let skipped = rows.as_ref().map_or(0, |rows| rows.skipped);
        let conversion = conversion.map(|conversion| Box::new(Conversion { skipped, ..conversion }));
        Ok(PlannedTensor { tensor, rows: rows.map(Box::new), into, conversion, expansion })
    }
}

/// Checks that the elements and the length of `into` are those of what is requested.
pub(crate) fn check_into<B: Buffer>(planned: &PlannedTensor<B>) -> Result<()> {
    let PlannedTensor { tensor, rows, into: Some(into), conversion, expansion } = planned else { return Ok(()) };
    let into_length = into.byte_length();
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name));
    if tensor.components.len() != 1 && expansion.is_none() {
        return refuse("`into` takes one buffer, but this tensor has several components".to_owned());
    }
    let own = tensor.components.first().map_or(&tensor.dtype, |component| &component.dtype);
    let dtype = conversion.as_ref().map(|conversion| &conversion.to);
    let dtype = dtype.or_else(|| expansion.as_ref().map(|expansion| expansion.dtype())).unwrap_or(own);
    into.check_elements(dtype).map_err(|e| e.in_tensor(&tensor.name))?;
    let converted = conversion.as_ref().map(|conversion| conversion.byte_length());
    let converted = converted.or_else(|| expansion.as_ref().map(|expansion| expansion.byte_length()));
    let stored = || rows.as_ref().map(|rows| rows.bytes.end - rows.bytes.start).or_else(|| tensor.byte_length());
    let needed = converted.or_else(stored);
    match needed {
        Some(needed) if needed == into_length => Ok(()),
        Some(needed) => refuse(format!("`into` has {into_length} bytes, but {needed} bytes are requested")),
        None => refuse("`into` requires a known length, but the file does not state the tensor's length".to_owned()),
    }
}
