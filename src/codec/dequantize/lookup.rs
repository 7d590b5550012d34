//! Types whose 4-bit elements are numbers in a table of 16 values: IQ4_NL, IQ4_XS, MXFP4 and NVFP4.

use super::block::{self, BlockFields, bits, byte, nibble, part};

/// The values of IQ4_NL and IQ4_XS.
const NONLINEAR: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// Twice the values of E2M1, the 4-bit float of the OCP specification. `gguf` has no negative zero.
const E2M1: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

pub(super) fn iq4_nl(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 18], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let scale = fields.half();
        look_up::<16>(&NONLINEAR, scale, fields.bytes(), decoded);
    });
}

/// Groups of 32 elements with a scale of 6 bits each, of which the upper two are in `high_scales`.
pub(super) fn iq4_xs(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 136], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, high_scales) = (fields.half(), u16::from_le_bytes(*fields.bytes()));
        let (low_scales, quants) = (fields.bytes::<4>(), fields.bytes::<128>());
        for (group, decoded) in decoded.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let high = (high_scales >> (2 * group) & 3) as u8;
            let scale = scale * (f32::from(nibble(low_scales, group) | high << 4) - 32.0);
            look_up::<16>(&NONLINEAR, scale, part(quants, group), decoded);
        }
    });
}

pub(super) fn mxfp4(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 17], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let [exponent] = *fields.bytes();
        // Half the power of two, because the values are doubled. The two smallest powers are subnormal.
        let scale = match exponent {
            0 | 1 => 0x0020_0000 << exponent,
            _ => (u32::from(exponent) - 1) << 23,
        };
        look_up::<16>(&E2M1, f32::from_bits(scale), fields.bytes(), decoded);
    });
}

/// Groups of 16 elements with a scale each: an E4M3 without a sign.
pub(super) fn nvfp4(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 36], decoded: &mut [f32; 64]| {
        let mut fields = BlockFields::of(block);
        let (scales, quants) = (fields.bytes::<4>(), fields.bytes::<32>());
        for (group, decoded) in decoded.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            look_up::<8>(&E2M1, half_of_e4m3(byte(scales, group)), part(quants, group), decoded);
        }
    });
}

/// Half the value of an E4M3 without its sign. `gguf` reads the positive NaN as 0, and the negative one as a number.
fn half_of_e4m3(scale: u8) -> f32 {
    let (exponent, fraction) = (bits(scale, 3, 15), f32::from(scale & 7));
    match (scale, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => fraction * f32::from_bits((127 - 10) << 23),
        _ => (1.0 + fraction / 8.0) * f32::from_bits((127 - 8 + u32::from(exponent)) << 23),
    }
}

/// Decodes `2 * N` elements: first those in the lower halves of the bytes, then the others.
#[inline(never)] // several types share it
fn look_up<const N: usize>(values: &[f32; 16], scale: f32, quants: &[u8; N], decoded: &mut [f32]) {
    for (half, decoded) in decoded.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        for (x, quant) in decoded.iter_mut().zip(quants) {
            *x = scale * values.get(usize::from(bits(*quant, 4 * half, 15))).copied().unwrap_or_default();
        }
    }
}
