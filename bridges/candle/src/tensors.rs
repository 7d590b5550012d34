//! Tensors of candle, and a `VarBuilder` over them.

use crate::Request;
use crate::convert::{float_dtype, to_tensor};
use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use std::collections::HashMap;
use weightstream::{Dtype, LoadedTensor, Model, Result, StreamRequest};

/// Loads tensors and returns a `VarBuilder` that owns them. Floats and quantized tensors are converted to `dtype` while
/// they arrive; other tensors keep their dtype until a layer asks for them. Drop the future to stop the load.
///
/// # Errors
/// Those of [`tensors`].
pub async fn var_builder(model: &Model, dtype: DType, request: &Request<'_>) -> Result<VarBuilder<'static>> {
    let tensors = load(model, Some(float_dtype(dtype)?), request, |loaded| to_tensor(loaded, &request.device)).await?;
    Ok(VarBuilder::from_tensors(tensors, dtype, &request.device))
}

/// Loads tensors by their names in candle. Floats and quantized tensors are converted to the dtype of the request, if
/// it has one. Sparse tensors become dense ones. The bytes of each tensor are copied into the tensor of candle, and
/// freed; in the browser, they are copied out of the memory of JavaScript before.
///
/// # Errors
/// `INVALID_ARGUMENT` for a dtype of the request other than F32, F16 and BF16, and for two tensors of one name;
/// `UNSUPPORTED` for a dtype that candle does not have; the errors of [`Model::stream`].
pub async fn tensors(model: &Model, request: &Request<'_>) -> Result<HashMap<String, Tensor>> {
    let dtype = request.dtype.map(float_dtype).transpose()?;
    load(model, dtype, request, |loaded| to_tensor(loaded, &request.device)).await
}

/// Loads the wanted tensors and makes each with `make`.
pub(crate) async fn load<T>(
    model: &Model,
    dtype: Option<Dtype>,
    request: &Request<'_>,
    make: impl Fn(LoadedTensor) -> Result<T>,
) -> Result<HashMap<String, T>> {
    let mut wanted = Wanted::of(model.tensors(), dtype, request)?;
    let mut loads = model.stream(wanted.request());
    let mut tensors = HashMap::new();
    while let Some(loaded) = loads.next().await {
        tensors.extend(wanted.made(loaded?, &make)?);
    }
    Ok(tensors)
}

/// The tensors of a request.
pub(crate) struct Wanted {
    /// The names in candle, by those in the file.
    names: HashMap<String, String>,
    request: Option<StreamRequest>,
}

impl Wanted {
    pub(crate) fn of(index: &[weightstream::Tensor], dtype: Option<Dtype>, request: &Request<'_>) -> Result<Self> {
        let names = request.renamed(index.iter())?;
        let mut stream = StreamRequest::new().dense();
        // A request for all tensors also verifies the checksums of whole files.
        if names.len() < index.len() {
            let is_wanted = |name: &&String| names.contains_key(*name);
            stream = stream.names(index.iter().map(|tensor| &tensor.name).filter(is_wanted).cloned());
        }
        if let Some(dtype) = dtype {
            stream = stream.dtype(dtype);
        }
        Ok(Wanted { names, request: Some(stream) })
    }

    /// The request of all of them.
    pub(crate) fn request(&mut self) -> StreamRequest {
        self.request.take().unwrap_or_default()
    }

    /// Makes a tensor, and returns it with its name in candle.
    pub(crate) fn made<T>(
        &mut self,
        loaded: LoadedTensor,
        make: &impl Fn(LoadedTensor) -> Result<T>,
    ) -> Result<Option<(String, T)>> {
        let name = loaded.name().to_owned();
        let tensor = make(loaded).map_err(|e| e.in_tensor(&name))?;
        Ok(self.names.remove(&name).map(|name| (name, tensor)))
    }
}
