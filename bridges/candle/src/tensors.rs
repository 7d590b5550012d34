//! Tensors of candle, and a `VarBuilder` over them.

use crate::Request;
use crate::convert::{AlignedBytes, float_dtype};
use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use futures::stream::StreamExt;
use std::collections::HashMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use weightstream::dtype::Dtype;
use weightstream::loader::{Loaded, Loader, TensorsRequest};
use weightstream::native::Reader;
use weightstream::progress::Progress;
use weightstream::source::{Body, Buffer, ModelSource};
use weightstream::{Error, ErrorKind, Result};

type BufferOf<S> = <<S as Source>::Body as Body>::Buffer;

/// Loads tensors and returns a `VarBuilder` that owns them. Floats and quantized tensors are converted to `dtype` while
/// they arrive; other tensors keep their dtype until a layer asks for them. Drop the future to stop the load.
///
/// # Errors
/// Those of [`tensors`].
pub async fn var_builder<S: ModelSource>(
    loader: &Rc<Loader<S>>,
    dtype: DType,
    request: &Request<'_>,
    progress: Rc<dyn Progress>,
) -> Result<VarBuilder<'static>> {
    let tensors = tensors(loader, Some(dtype), request, progress).await?;
    Ok(VarBuilder::from_tensors(tensors, dtype, &request.device))
}

/// Loads tensors by their names in candle. Floats and quantized tensors are converted to `dtype`, if it is given.
/// Sparse tensors become dense ones. The bytes of each tensor are copied twice: out of the loader's buffer, which in
/// the browser is memory of JavaScript, and into the tensor. The loader's buffer is freed before the second copy is
/// made.
///
/// # Errors
/// `INVALID_ARGUMENT` for a `dtype` other than F32, F16 and BF16, and for two tensors of one name; `UNSUPPORTED` for a
/// dtype that candle does not have; the errors of [`Loader::tensors`].
pub async fn tensors<S: ModelSource>(
    loader: &Rc<Loader<S>>,
    dtype: Option<DType>,
    request: &Request<'_>,
    progress: Rc<dyn Progress>,
) -> Result<HashMap<String, Tensor>> {
    let dtype = dtype.map(float_dtype).transpose()?;
    load(loader, dtype, request, progress, |bytes, dtype, shape| bytes.into_tensor(dtype, shape, &request.device)).await
}

/// Like [`var_builder`], from files.
///
/// # Errors
/// Those of [`read_tensors`].
pub fn read_var_builder(
    reader: &Reader,
    dtype: DType,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<VarBuilder<'static>> {
    let tensors = read_tensors(reader, Some(dtype), request, progress)?;
    Ok(VarBuilder::from_tensors(tensors, dtype, &request.device))
}

/// Like [`tensors`], from files. `progress` counts stored bytes, and can cancel. Sparse tensors are not supported.
///
/// # Errors
/// Those of [`tensors`], but with those of [`Reader::read_pieces_as`]; `CLOSED` if `progress` cancels.
pub fn read_tensors(
    reader: &Reader,
    dtype: Option<DType>,
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<HashMap<String, Tensor>> {
    let dtype = dtype.map(float_dtype).transpose()?;
    read(reader, dtype, request, progress, |bytes, dtype, shape| bytes.into_tensor(dtype, shape, &request.device))
}

/// Loads the wanted tensors and makes each with `make`.
pub(crate) async fn load<S: ModelSource, T>(
    loader: &Rc<Loader<S>>,
    dtype: Option<Dtype>,
    request: &Request<'_>,
    progress: Rc<dyn Progress>,
    make: impl Fn(AlignedBytes, &Dtype, &[u64]) -> Result<T>,
) -> Result<HashMap<String, T>> {
    let index = loader.load_index().await?.to_vec();
    let mut names = request.renamed(index.iter().map(Arc::as_ref))?;
    let wanted = index.iter().map(|tensor| &tensor.name).filter(|name| names.contains_key(*name)).cloned().collect();
    // A request for all tensors also verifies the checksums of whole files.
    let wanted = if names.len() == index.len() { None } else { Some(wanted) };
    let wanted = TensorsRequest::default().with_names(wanted).with_dtype(dtype).with_dense(true);
    let mut loads = pin!(loader.tensors_with(wanted, progress).await?);
    let mut tensors = HashMap::new();
    while let Some(loaded) = loads.next().await {
        let loaded = loaded?;
        let name = loaded.tensor.name.clone();
        let tensor = made::<S, T>(loaded, &make).map_err(|e| e.in_tensor(&name))?;
        tensors.extend(names.remove(&name).map(|name| (name, tensor)));
    }
    Ok(tensors)
}

/// Reads the wanted tensors and makes each with `make`.
pub(crate) fn read<T>(
    reader: &Reader,
    dtype: Option<Dtype>,
    request: &Request<'_>,
    progress: &dyn Progress,
    make: impl Fn(AlignedBytes, &Dtype, &[u64]) -> Result<T>,
) -> Result<HashMap<String, T>> {
    let mut names = request.renamed(reader.tensors().iter())?;
    let wanted = || reader.tensors().iter().filter(|tensor| names.contains_key(&tensor.name));
    progress.expects(wanted().map(stored_length).fold(0, u64::saturating_add));
    let mut tensors = HashMap::new();
    for tensor in reader.tensors() {
        let Some(name) = names.remove(&tensor.name) else { continue };
        let to = dtype.as_ref().filter(|_| is_real(&tensor.dtype)).unwrap_or(&tensor.dtype);
        let read = || {
            let mut bytes = AlignedBytes::allocate(to, &tensor.shape)?;
            let mut push = |piece: &[u8]| if progress.is_cancelled() { Err(cancelled()) } else { bytes.push(piece) };
            match to == &tensor.dtype {
                true => reader.read_pieces(&tensor.name, "data", &mut push)?,
                false => reader.read_pieces_as(&tensor.name, to, &mut push)?,
            };
            make(bytes, to, &tensor.shape)
        };
        tensors.insert(name, read().map_err(|e| e.in_tensor(&tensor.name))?);
        progress.advanced(stored_length(tensor));
    }
    Ok(tensors)
}

fn made<S: ModelSource, T>(
    loaded: Loaded<BufferOf<S>>,
    make: &impl Fn(AlignedBytes, &Dtype, &[u64]) -> Result<T>,
) -> Result<T> {
    let Loaded { dtype, shape, components, .. } = loaded;
    let mut bytes = AlignedBytes::allocate(&dtype, &shape)?;
    for component in components {
        component.buffer.inspect(0..component.buffer.byte_length(), &mut |piece| bytes.push(piece))?;
    }
    make(bytes, &dtype, &shape)
}

fn stored_length(tensor: &weightstream::index::Tensor) -> u64 {
    let ranges = tensor.components.iter().map(|component| &component.range);
    ranges.map(|range| range.end.saturating_sub(range.start)).fold(0, u64::saturating_add)
}

/// Whether a loader converts elements of this dtype: not integers and booleans.
fn is_real(dtype: &Dtype) -> bool {
    use Dtype::{Bool, I8, I16, I32, I64, U8, U16, U32, U64};
    !matches!(dtype, Bool | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Closed, "the load was cancelled").advise("Load the weights again.")
}
