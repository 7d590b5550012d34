//! Casts the elements of tensors incrementally: floats to shorter floats, or to blocks of 8-bit integers.
//!
//! All casts go through F32, which represents F16 and BF16 exactly. F64 is converted such that the result is rounded
//! only once; see `float::to_odd`.

mod float;
mod q8_0;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Layout, Tensor};

/// The number of elements that are cast at a time: whole blocks of every dtype, which fit in the processor's cache.
const CHUNK_ELEMENTS: usize = 4096;

/// Returns the dtype that `tensor` is cast to if `wanted` is requested, or `None` if the tensor is not cast.
///
/// Only dense matrices of floats are cast. Vectors are not: biases and norms are a thousandth of a model, and lose the
/// most accuracy. Matrices whose rows do not fill whole blocks are not cast either: see [`fills_blocks`].
pub fn target_dtype(tensor: &Tensor, wanted: &Dtype) -> Option<Dtype> {
    let is_cast = is_matrix_of_floats(tensor) && tensor.dtype != *wanted && encoder_of(wanted).is_some();
    (is_cast && fills_blocks(tensor, wanted)).then(|| wanted.clone())
}

/// Whether the rows of a matrix of floats are whole blocks of `wanted`. If not, the matrix is not cast, which callers
/// may report. Also true for tensors that are not cast for another reason.
pub fn fills_blocks(tensor: &Tensor, wanted: &Dtype) -> bool {
    let block_elements = wanted.block().map_or(1, |block| block.elements);
    let row = tensor.shape.last().copied().unwrap_or(0);
    !is_matrix_of_floats(tensor) || row.is_multiple_of(block_elements)
}

fn is_matrix_of_floats(tensor: &Tensor) -> bool {
    tensor.layout == Layout::Dense && tensor.shape.len() >= 2 && float_bytes(&tensor.dtype).is_some()
}

/// Casts one tensor incrementally.
///
/// Rounds once, to nearest, ties to even. Values that are too large become infinities, NaN stays NaN. Q8_0 is
/// bit-identical to the output of the Python package `gguf` 0.19.
#[derive(Debug)]
pub struct Cast {
    decode: Decode,
    encode: Encode,
    element_bytes: usize,
    /// The number of elements in a block of the target dtype.
    block_elements: usize,
    block_bytes: usize,
    /// The bytes of an incomplete block.
    pending: Vec<u8>,
    floats: Vec<f32>,
    out: Vec<u8>,
}

/// Reads little-endian elements.
type Decode = fn(&[u8], &mut [f32]);

/// Writes little-endian elements or blocks.
type Encode = fn(&[f32], &mut [u8]);

impl Cast {
    /// Creates a cast from F64, F32, F16 or BF16 to F32, F16, BF16 or Q8_0.
    ///
    /// # Errors
    /// `UNSUPPORTED` for other dtypes.
    pub fn new(from: &Dtype, to: &Dtype) -> Result<Cast> {
        let unsupported = || {
            let error = Error::new(ErrorKind::Unsupported, format!("{from} cannot be cast to {to}"));
            error.advise("Casts are supported from F64, F32, F16 and BF16 to F32, F16, BF16 and Q8_0.")
        };
        let element_bytes = float_bytes(from).ok_or_else(unsupported)?;
        let (encode, block) = encoder_of(to).zip(to.block()).ok_or_else(unsupported)?;
        let decode: Decode = match (from, to) {
            (Dtype::F64, Dtype::F16 | Dtype::BF16) => float::decode_f64_to_odd,
            (Dtype::F64, _) => float::decode_f64,
            (Dtype::F16, _) => float::decode_f16,
            (Dtype::BF16, _) => float::decode_bf16,
            _ => float::decode_f32,
        };
        let (block_elements, block_bytes) = (block.elements as usize, block.bytes as usize);
        let (pending, floats, out) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Cast { decode, encode, element_bytes, block_elements, block_bytes, pending, floats, out })
    }

    /// Casts the next bytes, of any length, and calls `emit` with the cast bytes, in order.
    ///
    /// # Errors
    /// Errors of `emit`.
    pub fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let unit = self.unit();
        if !self.pending.is_empty() {
            let (completing, rest) = bytes.split_at(bytes.len().min(unit - self.pending.len()));
            self.pending.extend_from_slice(completing);
            bytes = rest;
            if self.pending.len() < unit {
                return Ok(());
            }
            let completed = std::mem::take(&mut self.pending);
            self.cast(&completed, emit)?;
        }
        let (whole, partial) = bytes.split_at(bytes.len() - bytes.len() % unit);
        for chunk in whole.chunks(CHUNK_ELEMENTS * self.element_bytes) {
            self.cast(chunk, emit)?;
        }
        self.pending.extend_from_slice(partial);
        Ok(())
    }

    /// Checks that the input is complete. Must be called after the last byte.
    ///
    /// # Errors
    /// `FORMAT` if the last element or block of elements is incomplete.
    pub fn finish(self) -> Result<()> {
        match self.pending.len() {
            0 => Ok(()),
            left => Err(malformed(format!("its last {left} bytes are incomplete: {} were expected", self.unit()))),
        }
    }

    /// Casts elements of whole blocks.
    fn cast(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let elements = bytes.len() / self.element_bytes;
        self.floats.resize(elements, 0.0);
        self.out.resize(elements / self.block_elements * self.block_bytes, 0);
        (self.decode)(bytes, &mut self.floats);
        (self.encode)(&self.floats, &mut self.out);
        emit(&self.out)
    }

    /// The size of the input elements of one target block, in bytes.
    fn unit(&self) -> usize {
        self.block_elements * self.element_bytes
    }
}

/// The size of an element of a dtype that can be cast.
fn float_bytes(dtype: &Dtype) -> Option<usize> {
    match dtype {
        Dtype::F64 => Some(8),
        Dtype::F32 => Some(4),
        Dtype::F16 | Dtype::BF16 => Some(2),
        _ => None,
    }
}

fn encoder_of(dtype: &Dtype) -> Option<Encode> {
    match dtype {
        Dtype::F32 => Some(float::encode_f32),
        Dtype::F16 => Some(float::encode_f16),
        Dtype::BF16 => Some(float::encode_bf16),
        Dtype::Q8_0 => Some(q8_0::encode),
        _ => None,
    }
}
