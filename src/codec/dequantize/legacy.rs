//! Blocks of 32 elements with one scale: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.

use super::block::{self, BlockFields};

/// A scale, then 4 bits for each element, where 8 is zero. The lower halves of the bytes are the first 16 elements.
pub(super) fn q4_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 18], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let scale = fields.half();
        halves(fields.bytes(), 0, decoded, |quant| scale * (quant - 8.0));
    });
}

/// A scale, a minimum, then 4 bits for each element.
pub(super) fn q4_1(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 20], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, minimum) = (fields.half(), fields.half());
        halves(fields.bytes(), 0, decoded, |quant| scale * quant + minimum);
    });
}

/// A scale, the fifth bits of all elements, then the other 4 bits of each, where 16 is zero.
pub(super) fn q5_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 22], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, fifth_bits) = (fields.half(), u32::from_le_bytes(*fields.bytes()));
        halves(fields.bytes(), fifth_bits, decoded, |quant| scale * (quant - 16.0));
    });
}

/// A scale, a minimum, the fifth bits of all elements, then the other 4 bits of each.
pub(super) fn q5_1(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 24], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, minimum) = (fields.half(), fields.half());
        let fifth_bits = u32::from_le_bytes(*fields.bytes());
        halves(fields.bytes(), fifth_bits, decoded, |quant| scale * quant + minimum);
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

/// Decodes elements of 4 bits: first those in the lower halves of the bytes, then the others. `fifth_bits` has a
/// further bit for each element.
#[inline(always)]
fn halves(quants: &[u8; 16], fifth_bits: u32, decoded: &mut [f32; 32], value: impl Fn(f32) -> f32) {
    let (halves, _) = decoded.as_chunks_mut::<16>();
    for (half, decoded) in halves.iter_mut().enumerate() {
        for (at, (x, quant)) in decoded.iter_mut().zip(quants).enumerate() {
            let fifth_bit = fifth_bits >> (16 * half + at) & 1;
            *x = value((u32::from(quant >> (4 * half) & 15) | fifth_bit << 4) as i32 as f32);
        }
    }
}
