//! Encodes F32 as floats of 16 and 32 bits (IEEE 754; BF16 is the upper half of an F32), as little-endian bytes.
//!
//! The code has no branches, so that compilers can vectorize it. The crate `half` (2.7) is not suitable: it rounds
//! twice from F64 to F16.

use crate::codec::dequantize::floats::{F16_NORMAL, INFINITY};

/// The F32 exponent bits of the end of the range of F16 (2^16).
const F16_END: u32 = 143 << 23;

pub(super) fn encode_f32(floats: &[f32], out: &mut [u8]) {
    encode(floats, out, f32::to_le_bytes);
}

pub(super) fn encode_f16(floats: &[f32], out: &mut [u8]) {
    encode(floats, out, |x| to_f16(x).to_le_bytes());
}

pub(super) fn encode_bf16(floats: &[f32], out: &mut [u8]) {
    encode(floats, out, |x| to_bf16(x).to_le_bytes());
}

fn encode<const N: usize>(floats: &[f32], out: &mut [u8], to_element: impl Fn(f32) -> [u8; N]) {
    let (elements, _) = out.as_chunks_mut::<N>();
    elements.iter_mut().zip(floats).for_each(|(element, x)| *element = to_element(*x));
}

/// The F16 nearest to `x`; ties to even.
pub(crate) fn to_f16(x: f32) -> u16 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    // Drops 13 bits. Adding just below half of their range, and one more if the last remaining bit is 1,
    // rounds correctly by its carry, which turns values above the largest number into infinity.
    let normal = magnitude.wrapping_sub(F16_NORMAL - (1 << 23)).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    // The last bit of a subnormal F16 is 2^-24, like that of the F32 0.5: the addition rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
    let finite = if magnitude < F16_NORMAL { subnormal } else { normal };
    let special = if magnitude > INFINITY { nan } else { 0x7c00 };
    let value = if magnitude < F16_END { finite } else { special };
    (value | x.to_bits() >> 16 & 0x8000) as u16
}

/// The BF16 nearest to `x`; ties to even.
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)); // as in `to_f16`
    let is_nan = bits & 0x7fff_ffff > INFINITY;
    // Without the quiet bit, a NaN with its payload in the lower half would become an infinity.
    ((if is_nan { bits | 1 << 22 } else { rounded }) >> 16) as u16
}
