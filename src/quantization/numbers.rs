//! Scales, zero points and indices as numbers, and rounding to floats of 16 bits.

use crate::codec::dequantize::decoder_of;
use crate::dtype::Dtype;
use weightstream_kernels::floats;

/// 2^-14.
const SMALLEST_NORMAL_F16: f32 = 6.103_515_6e-5;

/// The size of a scale in bytes; `None` for dtypes that are not those of scales.
pub(super) fn scale_bytes(dtype: &Dtype) -> Option<u64> {
    match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F8_E4M3 | Dtype::F8_E8M0 | Dtype::U8 => {
            dtype.block().map(|block| block.bytes)
        }
        _ => None,
    }
}

/// Reads scales. Those of 8 bits without a sign are powers of two: E8M0 of the OCP specification, as which U8 is meant.
pub(super) fn read_scales(dtype: &Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F8_E8M0 | Dtype::U8 => out.iter_mut().zip(bytes).for_each(|(x, byte)| *x = power_of_two(*byte)),
        _ => {
            if let Some(decoder) = decoder_of(dtype) {
                (decoder.decode)(bytes, out);
            }
        }
    }
}

/// The value of an E8M0.
fn power_of_two(exponent: u8) -> f32 {
    match exponent {
        0 => f32::from_bits(1 << 22), // 2^-127, a subnormal number
        0xff => f32::NAN,
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

/// The first F32 of these bytes; 0 if there is none.
pub(super) fn first_f32(bytes: &[u8]) -> f32 {
    bytes.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
}

/// The little-endian words of 32 bits.
pub(super) fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// How products of integers from -1000 to 1000 and some scales are rounded: as by [`round`].
pub(super) struct RoundingOfMultiples<'a> {
    to: &'a Dtype,
    /// Whether they are zero or normal numbers of F16, which are rounded with fewer operations.
    are_normal: bool,
}

impl<'a> RoundingOfMultiples<'a> {
    pub(super) fn of(scales: &[f32], to: &'a Dtype) -> Self {
        let is_normal = |scale: &f32| *scale == 0.0 || (SMALLEST_NORMAL_F16..64.0).contains(&scale.abs());
        RoundingOfMultiples { to, are_normal: *to == Dtype::F16 && scales.iter().all(is_normal) }
    }

    pub(super) fn round(&self, values: &mut [f32]) {
        match self.are_normal {
            true => floats::round_normal_to_f16(values),
            false => round(values, self.to),
        }
    }
}

/// Rounds to the nearest float of a dtype, ties to even. F32 and other dtypes stay as they are.
pub(super) fn round(values: &mut [f32], to: &Dtype) {
    match to {
        Dtype::F16 => floats::round_to_f16(values),
        Dtype::BF16 => floats::round_to_bf16(values),
        _ => {}
    }
}
