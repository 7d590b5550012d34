//! The same calls for code that is not asynchronous.

use crate::Request;
use crate::convert::{float_dtype, to_qtensor, to_tensor};
use crate::tensors::Wanted;
use candle_core::quantized::QTensor;
use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use std::collections::HashMap;
use std::sync::Arc;
use weightstream::blocking::Model;
use weightstream::{Dtype, LoadedTensor, Result};

/// Like [`var_builder`](crate::var_builder()).
///
/// # Errors
/// Those of [`tensors`](crate::tensors()).
pub fn var_builder(model: &Model, dtype: DType, request: &Request<'_>) -> Result<VarBuilder<'static>> {
    let tensors = load(model, Some(float_dtype(dtype)?), request, |loaded| to_tensor(loaded, &request.device))?;
    Ok(VarBuilder::from_tensors(tensors, dtype, &request.device))
}

/// Like [`tensors`](crate::tensors()).
///
/// # Errors
/// Those of [`tensors`](crate::tensors()).
pub fn tensors(model: &Model, request: &Request<'_>) -> Result<HashMap<String, Tensor>> {
    let dtype = request.dtype.map(float_dtype).transpose()?;
    load(model, dtype, request, |loaded| to_tensor(loaded, &request.device))
}

/// Like [`qtensors`](crate::qtensors()).
///
/// # Errors
/// Those of [`qtensors`](crate::qtensors()).
pub fn qtensors(model: &Model, request: &Request<'_>) -> Result<HashMap<String, Arc<QTensor>>> {
    request.check_stored()?;
    load(model, None, request, |loaded| to_qtensor(loaded, &request.device).map(Arc::new))
}

fn load<T>(
    model: &Model,
    dtype: Option<Dtype>,
    request: &Request<'_>,
    make: impl Fn(LoadedTensor) -> Result<T>,
) -> Result<HashMap<String, T>> {
    let mut wanted = Wanted::of(model.tensors(), dtype, request)?;
    let mut tensors = HashMap::new();
    for loaded in model.stream(wanted.request()) {
        tensors.extend(wanted.made(loaded?, &make)?);
    }
    Ok(tensors)
}
