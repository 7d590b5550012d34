//! Bytes of weightstream as tensors of candle.

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device, Tensor};
use std::borrow::Cow;
use weightstream::dtype::{Dtype, element_count};
use weightstream::source::Buffer;
use weightstream::{Error, ErrorKind, Result};

/// The largest alignment of candle's elements and quantized blocks.
const ALIGNMENT: u64 = 8;

/// The bytes of one tensor, aligned for its elements. candle panics on quantized blocks that are not aligned.
pub(crate) struct AlignedBytes {
    memory: Vec<u8>,
    start: u64,
    filled: u64,
}

impl AlignedBytes {
    /// Allocates memory for a dense tensor.
    ///
    /// # Errors
    /// `LIMIT` if there is not enough memory; `UNSUPPORTED` if elements of the dtype have no known size.
    pub(crate) fn allocate(dtype: &Dtype, shape: &[u64]) -> Result<Self> {
        let length = dtype.byte_length(element_count(shape)?)?.ok_or_else(|| unsupported(dtype))?;
        let padded = length.checked_add(ALIGNMENT).ok_or_else(|| {
            Error::new(ErrorKind::Limit, format!("a tensor of {length} bytes does not fit into the address space"))
        })?;
        let mut memory = Vec::<u8>::allocate(padded)?;
        let start = memory.as_ptr().align_offset(ALIGNMENT as usize).min(ALIGNMENT as usize);
        // Ends the memory where the tensor ends, so that bytes beyond are refused.
        memory.truncate(usize::try_from(length).unwrap_or(usize::MAX).saturating_add(start));
        Ok(AlignedBytes { memory, start: start as u64, filled: 0 })
    }

    /// Appends the next bytes.
    ///
    /// # Errors
    /// `INTERNAL` if there are more bytes than the tensor has.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<()> {
        self.memory.write(self.start.saturating_add(self.filled), piece)?;
        self.filled = self.filled.saturating_add(piece.len() as u64);
        Ok(())
    }

    /// Copies the bytes into a tensor.
    ///
    /// # Errors
    /// `UNSUPPORTED` if candle has no such dtype; errors of candle.
    pub(crate) fn into_tensor(self, dtype: &Dtype, shape: &[u64], device: &Device) -> Result<Tensor> {
        let to = candle_dtype(dtype).ok_or_else(|| unsupported(dtype))?;
        Tensor::from_raw_buffer(self.complete()?, to, &dimensions(shape)?, device).map_err(of_candle)
    }

    /// Copies the bytes into a quantized tensor.
    ///
    /// # Errors
    /// `UNSUPPORTED` if candle has no such quantized type; errors of candle.
    pub(crate) fn into_qtensor(self, dtype: &Dtype, shape: &[u64], device: &Device) -> Result<QTensor> {
        let to = ggml_dtype(dtype).ok_or_else(|| unsupported(dtype))?;
        let storage = QStorage::from_data(Cow::Borrowed(self.complete()?), device, to).map_err(of_candle)?;
        QTensor::new(storage, dimensions(shape)?).map_err(of_candle)
    }

    fn complete(&self) -> Result<&[u8]> {
        let bytes = usize::try_from(self.start).ok().and_then(|start| self.memory.get(start..)).unwrap_or_default();
        if bytes.len() as u64 != self.filled {
            let what = format!("{} of the tensor's {} bytes arrived", self.filled, bytes.len());
            return Err(Error::new(ErrorKind::Internal, what));
        }
        Ok(bytes)
    }
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
