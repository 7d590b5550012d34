//! Tensors of weightstream as those that burn-store applies.

use burn_core::tensor::{BoolStore, Bytes, DType};
#[cfg(not(target_arch = "wasm32"))]
use burn_store::burn_pack::Error as PackError;
use burn_store::burn_pack::Tensor as PackTensor;
use weightstream::{Dtype, Error, ErrorKind, LoadedTensor, Result, Tensor};
#[cfg(not(target_arch = "wasm32"))]
use weightstream::{LoadRequest, blocking::Model};

/// Takes the bytes of a loaded tensor.
///
/// # Errors
/// `UNSUPPORTED` if burn has no such dtype; `LIMIT` if there is not enough memory.
pub(crate) fn resident(loaded: LoadedTensor) -> Result<PackTensor> {
    let form = Form::of(loaded.tensor(), loaded.dtype(), loaded.shape())?;
    let name = loaded.name().to_owned();
    let bytes = Bytes::from_bytes_vec(loaded.into_bytes()?);
    Ok(PackTensor::new(name, form.dtype, form.shape, None, bytes))
}

/// A tensor that is read when burn needs its bytes. Floats and quantized tensors are converted to `to`.
///
/// # Errors
/// `UNSUPPORTED` if burn has no such dtype.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn deferred(model: &Model, tensor: &Tensor, to: Option<&Dtype>) -> Result<PackTensor> {
    let converted = to.filter(|_| is_real(&tensor.dtype));
    let form = Form::of(tensor, converted.unwrap_or(&tensor.dtype), &tensor.shape)?;
    let request = LoadRequest::new(&tensor.name);
    let request = if let Some(dtype) = converted { request.dtype(dtype.clone()) } else { request };
    let byte_length = usize::try_from(form.byte_length).map_err(|_| too_large(tensor))?;
    let model = model.clone();
    let read = move || {
        let bytes = model.load(request.clone()).and_then(LoadedTensor::into_bytes);
        bytes.map(Bytes::from_bytes_vec).map_err(|e| PackError::IoError(e.to_string()))
    };
    Ok(PackTensor::deferred(tensor.name.clone(), form.dtype, form.shape, None, byte_length, read))
}

/// What burn knows of a tensor before it has the bytes.
struct Form {
    dtype: DType,
    shape: Vec<usize>,
    byte_length: u64,
}

impl Form {
    fn of(tensor: &Tensor, dtype: &Dtype, shape: &[u64]) -> Result<Form> {
        let unsupported = || {
            let error = Error::new(ErrorKind::Unsupported, format!("burn has no tensors of the dtype {dtype}"));
            error.in_tensor(&tensor.name).advise("Pass the dtype F32 to convert floats and quantized tensors.")
        };
        let byte_length = byte_length(dtype, shape).ok_or_else(unsupported)?;
        let dimensions = shape.iter().map(|&dimension| usize::try_from(dimension)).collect::<Result<_, _>>();
        let shape = dimensions.map_err(|_| too_large(tensor))?;
        Ok(Form { dtype: burn_dtype(dtype).ok_or_else(unsupported)?, shape, byte_length })
    }
}

/// `None` for a dtype whose elements have no known size, and for a shape that overflows u64.
fn byte_length(dtype: &Dtype, shape: &[u64]) -> Option<u64> {
    let elements = shape.iter().try_fold(1, |product: u64, &dimension| product.checked_mul(dimension))?;
    dtype.byte_length(elements).ok()?
}

fn burn_dtype(dtype: &Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        Dtype::Bool => DType::Bool(BoolStore::U8),
        _ => return None,
    })
}

/// Whether loads convert elements of this dtype: not integers and booleans.
#[cfg(not(target_arch = "wasm32"))]
fn is_real(dtype: &Dtype) -> bool {
    use Dtype::{Bool, I8, I16, I32, I64, U8, U16, U32, U64};
    !matches!(dtype, Bool | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

fn too_large(tensor: &Tensor) -> Error {
    Error::new(ErrorKind::Limit, "the tensor exceeds the address space").in_tensor(&tensor.name)
}
