//! Floats of 8, 16, 32 and 64 bits as little-endian bytes. BF16 is the upper half of an F32.
//!
//! The code has no branches, so that compilers can vectorize it.

/// The F32 exponent bits of the smallest normal F16 (2^-14).
pub(crate) const F16_NORMAL: u32 = 113 << 23;
pub(crate) const INFINITY: u32 = 0x7f80_0000;

pub(super) fn f64(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| f64::from_le_bytes(element) as f32);
}

/// Rounds to odd, so that rounding the result to F16 or BF16 equals rounding the F64 directly.
pub(crate) fn f64_to_odd(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| to_odd(f64::from_le_bytes(element)));
}

pub(super) fn f32(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, f32::from_le_bytes);
}

pub(super) fn f16(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| from_f16(u16::from_le_bytes(element)));
}

pub(super) fn bf16(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| f32::from_bits(u32::from(u16::from_le_bytes(element)) << 16));
}

/// E4M3 of the OCP specification: no infinities, and NaN only if all bits but the sign are set.
pub(super) fn f8_e4m3(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |[element]| {
        let sign = u32::from(element & 0x80) << 24;
        let magnitude = u32::from(element & 0x7f);
        let value = unsigned(magnitude << 20, 7).to_bits();
        f32::from_bits(sign | if magnitude == 0x7f { INFINITY | 1 << 22 } else { value })
    });
}

/// E5M2, the upper half of an F16.
pub(super) fn f8_e5m2(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |[element]| from_f16(u16::from(element) << 8));
}

fn decode<const N: usize>(bytes: &[u8], floats: &mut [f32], to_float: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    floats.iter_mut().zip(elements).for_each(|(x, element)| *x = to_float(*element));
}

pub(crate) fn from_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let finite = unsigned(magnitude, 15).to_bits();
    f32::from_bits(sign | if magnitude < 0x7c00 << 13 { finite } else { magnitude | INFINITY })
}

/// The value of a positive finite float whose fraction is at the bits of an F32's fraction, followed by an exponent
/// with this bias.
fn unsigned(magnitude: u32, bias: u32) -> f32 {
    let smallest_normal = (128 - bias) << 23;
    let normal = magnitude + smallest_normal - (1 << 23);
    // With the exponent of the smallest normal number, a subnormal value is too large by exactly that number.
    let subnormal = (f32::from_bits(magnitude + smallest_normal) - f32::from_bits(smallest_normal)).to_bits();
    f32::from_bits(if magnitude < 1 << 23 { subnormal } else { normal })
}

/// Rounds `x` to odd: returns `x` if it is an F32, else the odd one of the two nearest F32. Rounding the result to at
/// most 22 bits equals rounding `x` directly, because an odd number is neither such a number nor half-way between two
/// (Boldo and Melquiond, "When double rounding is odd").
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let towards_zero = nearest.to_bits().wrapping_sub(u32::from(back.abs() > x.abs()));
    f32::from_bits(towards_zero | u32::from(back != x))
}
