//! Floats of 8, 16, 32 and 64 bits as little-endian bytes (IEEE 754; BF16 is the upper half of an F32).
//!
//! The code has no branches, so that compilers can vectorize it. The crate `half` (2.7) is not suitable: it rounds
//! twice from F64 to F16.

/// The exponent bits of an infinite F32.
pub const INFINITY: u32 = 0x7f80_0000;
/// The F32 exponent bits of the smallest normal F16 (2^-14).
const F16_NORMAL: u32 = 113 << 23;
/// The F32 exponent bits of the end of the range of F16 (2^16).
const F16_END: u32 = 143 << 23;

/// Decodes F64, rounded to F32.
pub fn f64(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| f64::from_le_bytes(element) as f32);
}

/// Decodes F64, rounded to odd, so that rounding the result to F16 or BF16 equals rounding the F64 directly.
pub fn f64_to_odd(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| to_odd(f64::from_le_bytes(element)));
}

/// Decodes F32.
pub fn f32(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, f32::from_le_bytes);
}

/// Decodes F16.
pub fn f16(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| from_f16(u16::from_le_bytes(element)));
}

/// Decodes BF16.
pub fn bf16(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |element| f32::from_bits(u32::from(u16::from_le_bytes(element)) << 16));
}

/// E4M3 of the OCP specification: no infinities, and NaN only if all bits but the sign are set.
pub fn f8_e4m3(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |[element]| {
        let sign = u32::from(element & 0x80) << 24;
        let magnitude = u32::from(element & 0x7f);
        let value = unsigned(magnitude << 20, 7).to_bits();
        f32::from_bits(sign | if magnitude == 0x7f { INFINITY | 1 << 22 } else { value })
    });
}

/// The value of the E2M1 of the OCP specification in the lower half of a byte.
#[inline]
pub fn from_f4_e2m1(byte: u8) -> f32 {
    f32::from_bits(u32::from(byte & 8) << 28 | unsigned(u32::from(byte & 7) << 22, 1).to_bits())
}

/// E5M2, the upper half of an F16.
pub fn f8_e5m2(bytes: &[u8], floats: &mut [f32]) {
    decode(bytes, floats, |[element]| from_f16(u16::from(element) << 8));
}

fn decode<const N: usize>(bytes: &[u8], floats: &mut [f32], to_float: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    floats.iter_mut().zip(elements).for_each(|(x, element)| *x = to_float(*element));
}

/// The value of an F16.
#[inline]
pub fn from_f16(bits: u16) -> f32 {
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

/// Encodes as F32.
pub fn encode_f32(floats: &[f32], out: &mut [u8]) {
    encode(floats, out, f32::to_le_bytes);
}

/// Encodes as F16, rounded to nearest, ties to even.
pub fn encode_f16(floats: &[f32], out: &mut [u8]) {
    encode(floats, out, |x| to_f16(x).to_le_bytes());
}

/// Encodes as BF16, rounded to nearest, ties to even.
pub fn encode_bf16(floats: &[f32], out: &mut [u8]) {
    encode(floats, out, |x| to_bf16(x).to_le_bytes());
}

fn encode<const N: usize>(floats: &[f32], out: &mut [u8], to_element: impl Fn(f32) -> [u8; N]) {
    let (elements, _) = out.as_chunks_mut::<N>();
    elements.iter_mut().zip(floats).for_each(|(element, x)| *element = to_element(*x));
}

/// The F16 nearest to `x`; ties to even.
#[inline]
pub fn to_f16(x: f32) -> u16 {
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
#[inline]
pub fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)); // as in `to_f16`
    let is_nan = bits & 0x7fff_ffff > INFINITY;
    // Without the quiet bit, a NaN with its payload in the lower half would become an infinity.
    ((if is_nan { bits | 1 << 22 } else { rounded }) >> 16) as u16
}

/// Rounds to values of F16: to nearest, ties to even. The result is that of [`to_f16`] and [`from_f16`].
pub fn round_to_f16(values: &mut [f32]) {
    values.iter_mut().for_each(|x| {
        let magnitude = x.to_bits() & 0x7fff_ffff;
        let normal = magnitude.wrapping_add(0xfff + (magnitude >> 13 & 1)) & !0x1fff; // as in `to_f16`
        let subnormal = ((f32::from_bits(magnitude) + 0.5) - 0.5).to_bits();
        let finite = if magnitude < F16_NORMAL { subnormal } else { normal };
        let value = if finite < F16_END { finite } else { INFINITY };
        let nan = (magnitude | 1 << 22) & !0x1fff;
        let value = if magnitude > INFINITY { nan } else { value };
        *x = f32::from_bits(value | x.to_bits() & 0x8000_0000);
    });
}

/// Like [`round_to_f16`], for numbers that are zero, or from 2^-14 to 65504 in magnitude: other ones may be wrong.
pub fn round_normal_to_f16(values: &mut [f32]) {
    values.iter_mut().for_each(|x| {
        let bits = x.to_bits();
        *x = f32::from_bits(bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff);
    });
}

/// Rounds to values of BF16: to nearest, ties to even.
pub fn round_to_bf16(values: &mut [f32]) {
    values.iter_mut().for_each(|x| *x = f32::from_bits(u32::from(to_bf16(*x)) << 16));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F32 of all exponents, near ties and ends of ranges, and NaN.
    fn numbers() -> impl Iterator<Item = f32> {
        let fractions =
            [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x7f_e000, 0x7f_efff, 0x7f_f000, 0x7f_ffff];
        let bits = (0..512_u32).flat_map(move |upper| fractions.map(|fraction| upper << 23 | fraction));
        bits.map(f32::from_bits)
    }

    #[test]
    fn rounding_equals_encoding_and_decoding() {
        for x in numbers() {
            let mut rounded = [x];
            round_to_f16(&mut rounded);
            assert_eq!(rounded[0].to_bits(), from_f16(to_f16(x)).to_bits(), "{x:e} {:x}", x.to_bits());
            if x == 0.0 || (2.0f32.powi(-14)..=65504.0).contains(&x.abs()) {
                let mut rounded = [x];
                round_normal_to_f16(&mut rounded);
                assert_eq!(rounded[0].to_bits(), from_f16(to_f16(x)).to_bits(), "{x:e}");
            }
            let mut rounded = [x];
            round_to_bf16(&mut rounded);
            assert_eq!(rounded[0].to_bits(), u32::from(to_bf16(x)) << 16, "{x:e}");
        }
    }

    #[test]
    fn floats_of_4_bits_have_the_values_of_the_specification() {
        let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (code, value) in (0_u8..).zip(values) {
            assert_eq!(from_f4_e2m1(code).to_bits(), f32::to_bits(value));
            assert_eq!(from_f4_e2m1(code | 8 | 0x30).to_bits(), f32::to_bits(-value));
        }
    }
}
