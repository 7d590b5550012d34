//! Casts the elements of tensors incrementally: floats and quantized blocks to floats, or to blocks of integers.
//!
//! All casts go through F32, which represents all values of shorter floats exactly. F64 is converted such that the
//! result is rounded only once; see `floats::f64_to_odd`.

#[cfg(writes)]
mod q4_0;
#[cfg(writes)]
mod q8_0;
#[cfg(all(test, native))]
mod tests;

use super::dequantize::{BlockDecoder, decoder_of};
use crate::dtype::{APR_Q4, Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Layout, Tensor};
use std::ops::Range;
use weightstream_kernels::floats;

/// The number of elements that are cast at a time: whole blocks of every dtype, which fit in the processor's cache.
const CHUNK_ELEMENTS: usize = 4096;

/// Casts one tensor incrementally.
///
/// Quantized elements are decoded to the bits that the Python package `gguf` 0.19 decodes them to. The result is
/// rounded once, to nearest, ties to even; values that are too large become infinities, NaN stays NaN. Q8_0 and Q4_0
/// are bit-identical to the output of `gguf`.
#[derive(Debug)]
pub struct Cast {
    decoder: BlockDecoder,
    /// The scale of all elements, if it precedes them and has been read.
    scale: Option<f32>,
    encode: Encode,
    /// The number of elements in whole blocks of both dtypes.
    unit_elements: usize,
    /// The number of elements in a block of the target dtype.
    block_elements: usize,
    block_bytes: usize,
    /// The number of elements that are still expected, if it is known. Elements after them are padding.
    remaining: Option<u64>,
    /// The bytes of an incomplete unit.
    pending: Vec<u8>,
    floats: Vec<f32>,
    out: Vec<u8>,
}

/// Writes little-endian elements or blocks.
pub(crate) type Encode = fn(&[f32], &mut [u8]);

/// Receives bytes.
type Emit<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

impl Cast {
    /// Creates a cast from floats and quantized dtypes to F32, F16, BF16, Q8_0 or Q4_0.
    ///
    /// # Errors
    /// `UNSUPPORTED` for other dtypes.
    pub fn new(from: &Dtype, to: &Dtype) -> Result<Cast> {
        let unsupported = || {
            let error = Error::new(ErrorKind::Unsupported, format!("{from} cannot be cast to {to}"));
            error.advise("Casts are supported from floats and quantized dtypes to F32, F16, BF16, Q8_0 and Q4_0.")
        };
        let mut decoder = decoder_of(from).ok_or_else(unsupported)?;
        if let (Dtype::F64, Dtype::F16 | Dtype::BF16) = (from, to) {
            decoder.decode = floats::f64_to_odd;
        }
        let (encode, block) = encoder_of(to).zip(to.block()).ok_or_else(unsupported)?;
        let (block_elements, block_bytes) = (block.elements as usize, block.bytes as usize);
        let unit_elements = decoder.elements.max(block_elements); // both are powers of two
        let (scale, remaining, pending, floats, out) = Default::default();
        Ok(Cast { decoder, scale, encode, unit_elements, block_elements, block_bytes, remaining, pending, floats, out })
    }

    /// States the number of elements of the tensor. The last block may have further ones, which are padding.
    #[must_use]
    pub fn with_elements(mut self, elements: u64) -> Self {
        self.remaining = Some(elements);
        self
    }

    /// Casts the next bytes, of any length, and calls `emit` with the cast bytes, in order.
    ///
    /// # Errors
    /// Errors of `emit`.
    pub fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let unit = self.unit();
        if !self.pending.is_empty() || self.awaits_scale() {
            let (completing, rest) = bytes.split_at(bytes.len().min(unit - self.pending.len()));
            self.pending.extend_from_slice(completing);
            bytes = rest;
            if self.pending.len() < unit {
                return Ok(());
            }
            let completed = std::mem::take(&mut self.pending);
            if let Some(scale) = completed.first_chunk().filter(|_| self.awaits_scale()) {
                self.scale = Some(f32::from_le_bytes(*scale));
                return self.push(bytes, emit);
            }
            self.cast(&completed, emit)?;
        }
        let (whole, partial) = bytes.split_at(bytes.len() - bytes.len() % unit);
        for chunk in whole.chunks(CHUNK_ELEMENTS / self.decoder.elements * self.decoder.bytes) {
            self.cast(chunk, emit)?;
        }
        self.pending.extend_from_slice(partial);
        Ok(())
    }

    /// Checks that the input is complete. Must be called after the last byte.
    ///
    /// # Errors
    /// `FORMAT` if the last element or block of elements is incomplete, or if elements are missing.
    pub fn finish(self) -> Result<()> {
        match (self.pending.len(), self.remaining.unwrap_or(0)) {
            (0, 0) => Ok(()),
            (0, missing) => Err(malformed(format!("its last {missing} elements are missing"))),
            (left, _) => Err(malformed(format!("its last {left} bytes are incomplete: {} were expected", self.unit()))),
        }
    }

    /// Casts elements of whole blocks.
    fn cast(&mut self, bytes: &[u8], emit: Emit) -> Result<()> {
        let elements = bytes.len() / self.decoder.bytes * self.decoder.elements;
        self.floats.resize(elements, 0.0);
        (self.decoder.decode)(bytes, &mut self.floats);
        if let Some(remaining) = &mut self.remaining {
            if (elements as u64).saturating_sub(*remaining) >= self.decoder.elements as u64 {
                return Err(malformed("it has more elements than its shape"));
            }
            self.floats.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
            *remaining -= self.floats.len() as u64;
        }
        if let Some(scale) = self.scale {
            self.floats.iter_mut().for_each(|x| *x *= scale);
        }
        self.out.resize(self.floats.len() / self.block_elements * self.block_bytes, 0);
        (self.encode)(&self.floats, &mut self.out);
        emit(&self.out)
    }

    fn awaits_scale(&self) -> bool {
        self.decoder.scale_bytes > 0 && self.scale.is_none()
    }

    /// The size of the next input that can be processed, in bytes.
    fn unit(&self) -> usize {
        if self.awaits_scale() {
            return self.decoder.scale_bytes;
        }
        self.unit_elements / self.decoder.elements * self.decoder.bytes
    }
}

/// Whether the elements of a tensor can be cast: it is dense, its dtype has a decoder, and no row is padded.
pub(crate) fn is_castable(tensor: &Tensor) -> bool {
    let (Layout::Dense, [component], Some(decoder)) =
        (&tensor.layout, tensor.components.as_slice(), decoder_of(&tensor.dtype))
    else {
        return false;
    };
    let Ok(elements) = element_count(&tensor.shape) else { return false };
    let block_elements = decoder.elements as u64;
    let row = tensor.shape.last().copied().unwrap_or(1);
    let rows = elements.checked_div(row).unwrap_or(0);
    let blocks = elements.div_ceil(block_elements);
    // Tools pad either the end of each row or that of the tensor, which cannot be distinguished if the length is equal.
    let may_be_padded = rows > 1
        && !row.is_multiple_of(block_elements)
        && tensor.dtype.name() != APR_Q4
        && rows.checked_mul(row.div_ceil(block_elements)).is_none_or(|by_row| by_row == blocks);
    let scale = if elements == 0 { 0 } else { decoder.scale_bytes as u64 };
    let expected = blocks.checked_mul(decoder.bytes as u64).and_then(|bytes| bytes.checked_add(scale));
    !may_be_padded && component.decoded_length.is_none_or(|length| Some(length) == expected)
}

/// What the elements of a dtype are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Floats of at least 16 bits.
    Float,
    /// Quantized elements, floats of at most 8 bits, and dtypes of unknown meaning.
    Quantized,
    /// Complex numbers.
    Complex,
    /// Integers and booleans.
    Integer,
}

pub(crate) fn kind_of(dtype: &Dtype) -> Kind {
    match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => Kind::Float,
        Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 | Dtype::U64 | Dtype::U32 | Dtype::U16 | Dtype::U8 => {
            Kind::Integer
        }
        Dtype::Bool => Kind::Integer,
        Dtype::C64 | Dtype::C128 => Kind::Complex,
        // Integers of fewer bits, such as `U4`.
        Dtype::Other(name) if name.strip_prefix(['I', 'U']).is_some_and(|bits| bits.parse::<u8>().is_ok()) => {
            Kind::Integer
        }
        _ => Kind::Quantized,
    }
}

/// A conversion of a tensor that is loaded, or of some of its rows, to floats.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// The dtype of the result.
    pub to: Dtype,
    /// The number of elements.
    pub elements: u64,
    /// The number of elements before them that are read too, and dropped.
    pub skipped: u64,
}

impl Conversion {
    /// The conversion of a tensor, or of its rows with this shape; `None` if it has the dtype already, or is a tensor
    /// of integers or booleans, which are not converted.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a dtype that tensors are not converted to; `UNSUPPORTED` for a tensor that cannot be
    /// converted.
    pub(crate) fn of(tensor: &Tensor, shape: &[u64], to: &Dtype) -> Result<Option<Conversion>> {
        if is_kept(&tensor.dtype, to)? {
            return Ok(None);
        }
        check_dense(&tensor.layout, to).map_err(|error| error.in_tensor(&tensor.name))?;
        if !is_castable(tensor) {
            return Err(not_converted(&tensor.dtype, to).in_tensor(&tensor.name));
        }
        Ok(Some(Conversion { to: to.clone(), elements: element_count(shape)?, skipped: 0 }))
    }

    /// The size of the converted elements in bytes.
    pub(crate) fn byte_length(&self) -> u64 {
        self.elements.saturating_mul(self.element_bytes())
    }

    /// The range of the converted elements in bytes, after those that are dropped.
    pub(crate) fn output_range(&self) -> Range<u64> {
        let start = self.skipped.saturating_mul(self.element_bytes());
        start..start.saturating_add(self.byte_length())
    }

    /// Starts to convert elements of this dtype.
    pub(crate) fn cast(&self, from: &Dtype) -> Result<Cast> {
        Ok(Cast::new(from, &self.to)?.with_elements(self.skipped.saturating_add(self.elements)))
    }

    fn element_bytes(&self) -> u64 {
        self.to.block().map_or(1, |block| block.bytes)
    }
}

/// The dtype that single elements are converted to; `None` if they keep their dtype.
///
/// # Errors
/// As for [`Conversion::of`].
pub(crate) fn converted_dtype<'a>(from: &Dtype, to: &'a Dtype) -> Result<Option<&'a Dtype>> {
    match (is_kept(from, to)?, decoder_of(from)) {
        (true, _) => Ok(None),
        (false, Some(BlockDecoder { elements: 1, scale_bytes: 0, .. })) => Ok(Some(to)),
        (false, _) => Err(not_converted(from, to)),
    }
}

/// Checks that the elements of a dense tensor can be converted to floats of the dtype `to`, or have it already.
///
/// # Errors
/// `UNSUPPORTED` for integers and booleans, and for other layouts.
#[cfg(feature = "js")]
#[inline(never)]
pub(crate) fn check_float(from: &Dtype, layout: &Layout, to: &Dtype) -> Result<()> {
    match kind_of(from) {
        Kind::Integer => Err(not_converted(from, to)),
        _ => check_dense(layout, to),
    }
}

fn check_dense(layout: &Layout, to: &Dtype) -> Result<()> {
    if *layout == Layout::Dense {
        return Ok(());
    }
    let what = format!("its layout is {}, and only dense tensors can be converted to {to}", layout.name());
    let error = Error::new(ErrorKind::Unsupported, what);
    Err(error.advise("Load it as a dense tensor, or without a conversion."))
}

/// Whether elements keep their dtype if they are requested as `to`.
fn is_kept(from: &Dtype, to: &Dtype) -> Result<bool> {
    if !matches!(to, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
        let error = Error::new(ErrorKind::InvalidArgument, format!("tensors are not converted to {to}"));
        return Err(error.advise("Choose F32, F16 or BF16."));
    }
    Ok(from == to || kind_of(from) == Kind::Integer)
}

fn not_converted(from: &Dtype, to: &Dtype) -> Error {
    let error = Error::new(ErrorKind::Unsupported, format!("it is {from}, which cannot be converted to {to}"));
    error.advise("Load it without a conversion.")
}

/// How F32 are written as elements or blocks of a dtype; `None` if they are not converted to it.
pub(crate) fn encoder_of(dtype: &Dtype) -> Option<Encode> {
    match dtype {
        Dtype::F32 => Some(floats::encode_f32),
        Dtype::F16 => Some(floats::encode_f16),
        Dtype::BF16 => Some(floats::encode_bf16),
        #[cfg(writes)]
        Dtype::Q8_0 => Some(q8_0::encode),
        #[cfg(writes)]
        Dtype::Q4_0 => Some(q4_0::encode),
        _ => None,
    }
}

/// Whether tensors can be cast to this dtype.
#[cfg(writes)]
pub(crate) fn is_target(dtype: &Dtype) -> bool {
    encoder_of(dtype).is_some()
}
