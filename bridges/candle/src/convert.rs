//! Bytes of weightstream as tensors of candle.

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device, Tensor};
use std::borrow::Cow;
use weightstream::{Dtype, Error, ErrorKind, LoadedTensor, Result};

/// The largest alignment of candle's elements and quantized blocks.
const ALIGNMENT: usize = 8;

/// Copies the bytes into a tensor.
///
/// # Errors
/// `UNSUPPORTED` if candle has no such dtype; errors of candle.
pub(crate) fn to_tensor(loaded: LoadedTensor, device: &Device) -> Result<Tensor> {
    let to = candle_dtype(loaded.dtype()).ok_or_else(|| unsupported(loaded.dtype()))?;
    let shape = dimensions(loaded.shape())?;
    with_aligned(loaded, |bytes| Tensor::from_raw_buffer(bytes, to, &shape, device).map_err(of_candle))
}

/// Copies the bytes into a quantized tensor.
///
/// # Errors
/// `UNSUPPORTED` if candle has no such quantized type; errors of candle.
pub(crate) fn to_qtensor(loaded: LoadedTensor, device: &Device) -> Result<QTensor> {
    let to = ggml_dtype(loaded.dtype()).ok_or_else(|| unsupported(loaded.dtype()))?;
    let shape = dimensions(loaded.shape())?;
    with_aligned(loaded, |bytes| {
        let storage = QStorage::from_data(Cow::Borrowed(bytes), device, to).map_err(of_candle)?;
        QTensor::new(storage, shape).map_err(of_candle)
    })
}

/// Passes on the bytes of a tensor, aligned for its elements: candle panics on quantized blocks that are not.
fn with_aligned<T>(loaded: LoadedTensor, make: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    let bytes = loaded.into_bytes()?;
    let start = bytes.as_ptr().align_offset(ALIGNMENT);
    if start == 0 {
        return make(&bytes);
    }
    let no_memory = |_| Error::new(ErrorKind::Limit, format!("{} bytes cannot be allocated", bytes.len()));
    let mut moved: Vec<u8> = Vec::new();
    moved.try_reserve_exact(bytes.len().saturating_add(ALIGNMENT)).map_err(no_memory)?;
    let start = moved.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    moved.resize(start, 0);
    moved.extend_from_slice(&bytes);
    drop(bytes);
    make(moved.get(start..).unwrap_or_default())
}

/// The dtype of weightstream for one that floats are converted to.
///
/// # Errors
/// `INVALID_ARGUMENT` for other dtypes than F32, F16 and BF16.
pub(crate) fn float_dtype(dtype: DType) -> Result<Dtype> {
    match dtype {
        DType::F32 => Ok(Dtype::F32),
        DType::F16 => Ok(Dtype::F16),
        DType::BF16 => Ok(Dtype::BF16),
        other => {
            let what = format!("weights cannot be converted to {} while they are loaded", other.as_str());
            Err(Error::new(ErrorKind::InvalidArgument, what).advise("Use F32, F16 or BF16."))
        }
    }
}

pub(crate) fn of_candle(error: candle_core::Error) -> Error {
    Error::new(ErrorKind::Unsupported, format!("candle cannot take the tensor: {error}")).with_cause(error)
}

/// Booleans are bytes in candle.
fn candle_dtype(dtype: &Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F8_E4M3 => DType::F8E4M3,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::U32 => DType::U32,
        Dtype::U8 | Dtype::Bool => DType::U8,
        _ => return None,
    })
}

/// Q8_1 and Q8_K, which only intermediate results have, are left out: the Q8_1 of files and that of candle differ.
fn ggml_dtype(dtype: &Dtype) -> Option<GgmlDType> {
    Some(match dtype {
        Dtype::F32 => GgmlDType::F32,
        Dtype::F16 => GgmlDType::F16,
        Dtype::BF16 => GgmlDType::BF16,
        Dtype::Q4_0 => GgmlDType::Q4_0,
        Dtype::Q4_1 => GgmlDType::Q4_1,
        Dtype::Q5_0 => GgmlDType::Q5_0,
        Dtype::Q5_1 => GgmlDType::Q5_1,
        Dtype::Q8_0 => GgmlDType::Q8_0,
        Dtype::Q2_K => GgmlDType::Q2K,
        Dtype::Q3_K => GgmlDType::Q3K,
        Dtype::Q4_K => GgmlDType::Q4K,
        Dtype::Q5_K => GgmlDType::Q5K,
        Dtype::Q6_K => GgmlDType::Q6K,
        _ => return None,
    })
}

fn dimensions(shape: &[u64]) -> Result<Vec<usize>> {
    let dimensions = shape.iter().map(|&dimension| usize::try_from(dimension)).collect::<Result<_, _>>();
    dimensions.map_err(|_| Error::new(ErrorKind::Limit, format!("the shape {shape:?} exceeds the address space")))
}

fn unsupported(dtype: &Dtype) -> Error {
    let what = format!("candle has no tensors of the dtype {dtype} in this form");
    let advice = "Convert the model to F32, F16, BF16 or a quantized type of ggml, or leave the tensor out with \
                  Request::with_names.";
    Error::new(ErrorKind::Unsupported, what).advise(advice)
}
