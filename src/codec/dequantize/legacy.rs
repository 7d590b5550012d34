//! Blocks with one scale: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 of 32 elements, Q2_0 of 64, and Q1_0 of 128.

use super::block::{self, BlockFields, bits};

/// A scale, then the sign of each element, the first in the lowest bit: 1 is the scale, 0 its negative.
pub(super) fn q1_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 18], decoded: &mut [f32; 128]| {
        let mut fields = BlockFields::of(block);
        let (scale, signs) = (fields.half(), fields.bytes::<16>());
        for (decoded, signs) in decoded.as_chunks_mut::<8>().0.iter_mut().zip(signs) {
            for (at, x) in decoded.iter_mut().enumerate() {
                // The negative of a NaN is another NaN, as in ggml.
                *x = f32::from_bits(scale.to_bits() ^ u32::from(bits(!signs, at, 1)) << 31);
            }
        }
    });
}

/// A scale, then 2 bits for each element, the first in the lowest bits, where 1 is zero.
pub(super) fn q2_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 18], decoded: &mut [f32; 64]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants) = (fields.half(), fields.bytes::<16>());
        for (decoded, quants) in decoded.as_chunks_mut::<4>().0.iter_mut().zip(quants) {
            for (at, x) in decoded.iter_mut().enumerate() {
                *x = scale * (f32::from(bits(*quants, 2 * at, 3)) - 1.0);
            }
        }
    });
}

/// A scale, then 4 bits for each element, where 8 is zero. The lower halves of the bytes are the first 16 elements.
pub(super) fn q4_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 18], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let scale = fields.half();
        halves(fields.bytes(), decoded, |quant| scale * (quant - 8.0));
    });
}

/// A scale, a minimum, then 4 bits for each element.
pub(super) fn q4_1(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 20], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, minimum) = (fields.half(), fields.half());
        halves(fields.bytes(), decoded, |quant| scale * quant + minimum);
    });
}

/// A scale, the fifth bits of all elements, then the other 4 bits of each, where 16 is zero.
pub(super) fn q5_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 22], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, fifth_bits) = (fields.half(), u32::from_le_bytes(*fields.bytes()));
        halves_with(fifth_bits, fields.bytes(), decoded, |quant| scale * (quant - 16.0));
    });
}

/// A scale, a minimum, the fifth bits of all elements, then the other 4 bits of each.
pub(super) fn q5_1(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 24], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, minimum) = (fields.half(), fields.half());
        let fifth_bits = u32::from_le_bytes(*fields.bytes());
        halves_with(fifth_bits, fields.bytes(), decoded, |quant| scale * quant + minimum);
    });
}

/// A scale, then a signed byte for each element.
pub(super) fn q8_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 34], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants) = (fields.half(), fields.bytes::<32>());
        decoded.iter_mut().zip(quants).for_each(|(x, quant)| *x = f32::from(*quant as i8) * scale);
    });
}

/// Decodes elements of 4 bits: first those in the lower halves of the bytes, then the others.
#[inline(always)]
fn halves(quants: &[u8; 16], decoded: &mut [f32; 32], value: impl Fn(f32) -> f32) {
    unpack(quants, decoded);
    decoded.iter_mut().for_each(|x| *x = value(*x));
}

/// Like [`halves`], with a fifth bit for each element.
#[inline(always)]
fn halves_with(fifth_bits: u32, quants: &[u8; 16], decoded: &mut [f32; 32], value: impl Fn(f32) -> f32) {
    unpack(quants, decoded);
    for (at, x) in decoded.iter_mut().enumerate() {
        *x = value(*x + (fifth_bits >> at & 1) as i32 as f32 * 16.0);
    }
}

#[inline(never)] // compilers vectorize it together with its callers to code that is several times as long
fn unpack(quants: &[u8; 16], decoded: &mut [f32; 32]) {
    let (low, high) = decoded.split_at_mut(16);
    for (quant, (low, high)) in quants.iter().zip(low.iter_mut().zip(high)) {
        (*low, *high) = (f32::from(quant & 15), f32::from(quant >> 4));
    }
}
