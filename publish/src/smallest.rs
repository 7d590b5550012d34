//! The format with which a model takes the least bytes without a loss.

use weightstream::Dtype;
use weightstream::internals::format::{Format, apr};
use weightstream::internals::write::{Input, format_named};

/// The format with which the download of a model is smallest: zTensor if most of its bytes are floats of 16 bits or
/// more, whose exponents [`Compression::Auto`](weightstream::write::Compression) compresses as streams of bytes. Others
/// hardly get smaller, and are written as APR. `cast` is the dtype that floats and quantized tensors are cast to.
#[doc(hidden)]
pub fn smallest_format(model: &dyn Input, cast: Option<&Dtype>) -> &'static Format {
    let is_float = |dtype: &Dtype| matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64);
    let (mut floats, mut others) = (0_u64, 0_u64);
    for tensor in model.tensors() {
        let bytes = tensor.byte_length().unwrap_or_else(|| tensor.stored_length());
        let is_quantized = tensor.dtype.block().is_none_or(|block| block.elements > 1);
        let written = match cast {
            Some(cast) if is_quantized || is_float(&tensor.dtype) => cast,
            _ => &tensor.dtype,
        };
        let sum = if is_float(written) { &mut floats } else { &mut others };
        *sum = sum.saturating_add(bytes);
    }
    match format_named("ztensor") {
        Ok(format) if floats > others => format,
        _ => &apr::FORMAT,
    }
}
