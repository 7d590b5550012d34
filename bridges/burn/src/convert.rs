//! Tensors of weightstream as those that burn-store applies.

use burn_core::tensor::{BoolStore, Bytes, DType};
use burn_store::burn_pack::{Error as PackError, Tensor as PackTensor};
use std::sync::Arc;
use weightstream::dtype::{Dtype, element_count};
use weightstream::index::Tensor;
use weightstream::loader::Loaded;
use weightstream::native::Reader;
use weightstream::source::Buffer;
use weightstream::{Error, ErrorKind, Result};

/// Copies the bytes of a loaded tensor.
///
/// # Errors
/// `UNSUPPORTED` if burn has no such dtype; `LIMIT` if there is not enough memory.
pub(crate) fn resident<B: Buffer>(loaded: Loaded<B>) -> Result<PackTensor> {
    let Loaded { tensor, dtype, shape, components, .. } = loaded;
    let form = Form::of(&tensor, &dtype, &shape)?;
    let mut bytes = Vec::<u8>::allocate(form.byte_length)?;
    let mut filled = 0;
    for component in components {
        component.buffer.inspect(0..component.buffer.byte_length(), &mut |piece| {
            bytes.write(filled, piece)?;
            filled += piece.len() as u64;
            Ok(())
        })?;
    }
    Ok(PackTensor::new(tensor.name.clone(), form.dtype, form.shape, None, Bytes::from_bytes_vec(bytes)))
}

/// A tensor that is read from its file when burn needs its bytes. Floats and quantized tensors are converted to `to`.
///
/// # Errors
/// `UNSUPPORTED` if burn has no such dtype.
pub(crate) fn deferred(reader: &Arc<Reader>, tensor: &Tensor, to: Option<&Dtype>) -> Result<PackTensor> {
    let dtype = to.filter(|_| is_real(&tensor.dtype)).unwrap_or(&tensor.dtype).clone();
    let form = Form::of(tensor, &dtype, &tensor.shape)?;
    let (reader, name) = (Arc::clone(reader), tensor.name.clone());
    let is_converted = dtype != tensor.dtype;
    let read = move || {
        let mut bytes = Vec::<u8>::allocate(form.byte_length)?;
        let mut filled = 0;
        let mut push = |piece: &[u8]| {
            bytes.write(filled, piece)?;
            filled += piece.len() as u64;
            Ok(())
        };
        match is_converted {
            true => reader.read_pieces_as(&name, &dtype, &mut push)?,
            false => reader.read_pieces(&name, "data", &mut push)?,
        };
        Ok(Bytes::from_bytes_vec(bytes))
    };
    let byte_length = usize::try_from(form.byte_length).map_err(|_| too_large(tensor))?;
    let read = move || read().map_err(|e: Error| PackError::IoError(e.to_string()));
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
        let byte_length = dtype.byte_length(element_count(shape)?)?.ok_or_else(unsupported)?;
        let dimensions = shape.iter().map(|&dimension| usize::try_from(dimension)).collect::<Result<_, _>>();
        let shape = dimensions.map_err(|_| too_large(tensor))?;
        Ok(Form { dtype: burn_dtype(dtype).ok_or_else(unsupported)?, shape, byte_length })
    }
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

/// Whether a loader converts elements of this dtype: not integers and booleans.
fn is_real(dtype: &Dtype) -> bool {
    use Dtype::{Bool, I8, I16, I32, I64, U8, U16, U32, U64};
    !matches!(dtype, Bool | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

fn too_large(tensor: &Tensor) -> Error {
    Error::new(ErrorKind::Limit, "the tensor exceeds the address space").in_tensor(&tensor.name)
}
