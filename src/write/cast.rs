//! Casts the elements of tensors as they go by: floats to shorter floats, or to blocks of 8-bit integers.
//!
//! Everything goes through F32, which holds F16 and BF16 exactly. Of F64 it keeps enough for one rounding to be all
//! there is; see `float::to_odd`.

mod float;
mod q8_0;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Layout, Tensor};

/// Elements that are cast at a time: whole blocks of every dtype, and few enough to stay in the processor's cache.
const STRETCH_ELEMENTS: usize = 4096;

/// The dtype that `tensor` is cast to where `wanted` is asked for; `None` where it stays as it is.
///
/// Dense matrices of floats are cast. Vectors stay: biases and norms are a thousandth of a model, and suffer most. So
/// do matrices whose rows do not fill whole blocks: [`fills_blocks`] tells.
pub fn target_dtype(tensor: &Tensor, wanted: &Dtype) -> Option<Dtype> {
    let is_cast = is_matrix_of_floats(tensor) && tensor.dtype != *wanted && encoder_of(wanted).is_some();
    (is_cast && fills_blocks(tensor, wanted)).then(|| wanted.clone())
}

/// Whether the rows of a matrix of floats are whole blocks of `wanted`. Where they are not, it stays as it is, and a
/// user who asked for a smaller model may want to know. True of tensors that stay for another reason.
pub fn fills_blocks(tensor: &Tensor, wanted: &Dtype) -> bool {
    let block_elements = wanted.block().map_or(1, |block| block.elements);
    let row = tensor.shape.last().copied().unwrap_or(0);
    !is_matrix_of_floats(tensor) || row.is_multiple_of(block_elements)
}

fn is_matrix_of_floats(tensor: &Tensor) -> bool {
    tensor.layout == Layout::Dense && tensor.shape.len() >= 2 && float_bytes(&tensor.dtype).is_some()
}

/// Casts one tensor, piece by piece.
///
/// Rounds to nearest, ties to even, once; what is too large becomes an infinity, NaN stays NaN. Q8_0 has the
/// bits that the Python package `gguf` 0.19 gives it.
#[derive(Debug)]
pub struct Cast {
    decode: Decode,
    encode: Encode,
    element_bytes: usize,
    /// How the target stores elements: so many of them in so many bytes.
    block_elements: usize,
    block_bytes: usize,
    /// The beginning of a block whose end has not come yet.
    pending: Vec<u8>,
    floats: Vec<f32>,
    out: Vec<u8>,
}

/// Reads little-endian elements.
type Decode = fn(&[u8], &mut [f32]);

/// Writes little-endian elements or blocks.
type Encode = fn(&[f32], &mut [u8]);

impl Cast {
    /// A cast from F64, F32, F16 or BF16 to F32, F16, BF16 or Q8_0.
    ///
    /// # Errors
    /// `UNSUPPORTED` for other dtypes.
    pub fn new(from: &Dtype, to: &Dtype) -> Result<Cast> {
        let unsupported = || {
            let error = Error::new(ErrorKind::Unsupported, format!("{from} cannot be cast to {to}"));
            error.advise("F64, F32, F16 and BF16 can be cast, to F32, F16, BF16 and Q8_0.")
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

    /// Takes the next bytes, cut anywhere, and calls `emit` with cast ones, in order.
    ///
    /// # Errors
    /// Those of `emit`.
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
        let (whole, begun) = bytes.split_at(bytes.len() - bytes.len() % unit);
        for stretch in whole.chunks(STRETCH_ELEMENTS * self.element_bytes) {
            self.cast(stretch, emit)?;
        }
        self.pending.extend_from_slice(begun);
        Ok(())
    }

    /// Must be called after the last byte.
    ///
    /// # Errors
    /// `FORMAT` where the last element, or the last block of elements, is not whole.
    pub fn finish(self) -> Result<()> {
        match self.pending.len() {
            0 => Ok(()),
            left => Err(malformed(format!("its last {left} bytes are not whole: {} were expected", self.unit()))),
        }
    }

    /// Casts as many elements as make whole blocks.
    fn cast(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let elements = bytes.len() / self.element_bytes;
        self.floats.resize(elements, 0.0);
        self.out.resize(elements / self.block_elements * self.block_bytes, 0);
        (self.decode)(bytes, &mut self.floats);
        (self.encode)(&self.floats, &mut self.out);
        emit(&self.out)
    }

    /// Bytes of as many elements as make one block of the target.
    fn unit(&self) -> usize {
        self.block_elements * self.element_bytes
    }
}

/// Bytes of an element of a dtype that can be cast.
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
