//! Types whose indices choose 8 or 4 numbers from a grid: IQ1, IQ2 and IQ3.

use super::block::{self, BlockFields, bits, byte, nibble, part, short};
use super::grids;

const IQ2_NUMBERS: [f32; 4] = [8.0, 25.0, 43.0, 0.0];
const IQ3_XXS_NUMBERS: [f32; 8] = [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0];
const IQ3_S_NUMBERS: [f32; 8] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];

/// Groups of 32 elements: four indices of 8 bits, then four numbers of signs and a scale in 32 bits.
pub(super) fn iq2_xxs(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 66], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants) = (fields.half(), fields.bytes::<64>());
        for (group, decoded) in decoded.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let indices: &[u8; 4] = part(quants, 2 * group);
            let others = u32::from_le_bytes(*part(quants, 2 * group + 1));
            let scale = scale * (0.5 + (others >> 28) as f32) * 0.25;
            for (at, decoded) in decoded.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let entry = grids::IQ2_XXS.entry(u16::from(byte(indices, at)));
                eight(decoded, entry, signs_of((others >> (7 * at)) as u8), scale);
            }
        }
    });
}

/// An index of 9 bits and the number of the signs for each 8 elements; a scale for each 16.
pub(super) fn iq2_xs(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 74], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants, scales) = (fields.half(), fields.bytes::<64>(), fields.bytes::<8>());
        for (at, decoded) in decoded.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let scale = scale * (0.5 + f32::from(nibble(scales, at / 2))) * 0.25;
            let quant = short(quants, at);
            eight(decoded, grids::IQ2_XS.entry(quant & 511), signs_of((quant >> 9) as u8), scale);
        }
    });
}

/// An index of 10 bits and 8 signs for each 8 elements; a scale for each 16.
pub(super) fn iq2_s(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 82], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants, signs) = (fields.half(), fields.bytes::<32>(), fields.bytes::<32>());
        let (high_bits, scales) = (fields.bytes::<8>(), fields.bytes::<8>());
        for (at, decoded) in decoded.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let scale = scale * (0.5 + f32::from(nibble(scales, at / 2))) * 0.25;
            let high = bits(byte(high_bits, at / 4), at % 4 * 2, 3);
            let index = u16::from_le_bytes([byte(quants, at), high]);
            eight(decoded, grids::IQ2_S.entry(index), byte(signs, at), scale);
        }
    });
}

/// An index of 8 bits for each 4 elements, then four numbers of signs and a scale for each 32.
pub(super) fn iq3_xxs(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 98], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants, others) = (fields.half(), fields.bytes::<64>(), fields.bytes::<32>());
        for (group, decoded) in decoded.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let others = u32::from_le_bytes(*part(others, group));
            let scale = scale * (0.5 + (others >> 28) as f32) * 0.5;
            for (at, decoded) in decoded.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let entry = grids::IQ3_XXS.entry(u16::from(byte(quants, 8 * group + at)));
                let signs = signs_of((others >> (at / 2 * 7)) as u8) >> (at % 2 * 4);
                four(decoded, entry, &IQ3_XXS_NUMBERS, signs, scale);
            }
        }
    });
}

/// An index of 9 bits and 4 signs for each 4 elements; a scale for each 32.
pub(super) fn iq3_s(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 110], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants, high_bits) = (fields.half(), fields.bytes::<64>(), fields.bytes::<8>());
        let (signs, scales) = (fields.bytes::<32>(), fields.bytes::<4>());
        for (at, decoded) in decoded.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let scale = scale * (1.0 + 2.0 * f32::from(nibble(scales, at / 8)));
            let index = u16::from_le_bytes([byte(quants, at), bits(byte(high_bits, at / 8), at % 8, 1)]);
            four(decoded, grids::IQ3_S.entry(index), &IQ3_S_NUMBERS, nibble(signs, at), scale);
        }
    });
}

/// An index of 11 bits for each 8 elements; a scale and a shift for each 32.
pub(super) fn iq1_s(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 50], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants, others) = (fields.half(), fields.bytes::<32>(), fields.bytes::<16>());
        for (at, decoded) in decoded.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let others = short(others, at / 4);
            let scale = scale * f32::from(2 * (others >> 12 & 7) + 1);
            let high = (others >> (at % 4 * 3) & 7) as u8;
            ternary(decoded, [byte(quants, at), high], others >> 15 != 0, scale);
        }
    });
}

/// An index of 11 bits and a shift for each 8 elements; a scale for each 16. The scale of the block is in the upper
/// bits of the four numbers of scales.
pub(super) fn iq1_m(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 56], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (quants, others, scales) = (fields.bytes::<32>(), fields.bytes::<16>(), fields.bytes::<8>());
        let parts = [0, 1, 2, 3].map(|at| short(scales, at) >> 12 << (4 * at));
        let scale = weightstream_kernels::floats::from_f16(parts.iter().fold(0, |all, part| all | part));
        for (at, decoded) in decoded.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let scale = scale * f32::from(2 * (short(scales, at / 8) >> (at / 2 % 4 * 3) & 7) + 1);
            let other = nibble(others, at);
            ternary(decoded, [byte(quants, at), other & 7], other & 8 != 0, scale);
        }
    });
}

/// The signs with this number of 7 bits: the eighth sign makes the number of negative ones even.
fn signs_of(number: u8) -> u8 {
    let seven = number & 127;
    seven | (seven.count_ones() as u8 & 1) << 7
}

#[inline(never)] // several types share it
fn eight(decoded: &mut [f32; 8], entry: u16, signs: u8, scale: f32) {
    for (at, x) in decoded.iter_mut().enumerate() {
        let number = IQ2_NUMBERS.get(usize::from(entry >> (2 * at) & 3)).copied().unwrap_or_default();
        *x = signed(scale * number, signs >> at);
    }
}

#[inline(never)] // several types share it
fn four(decoded: &mut [f32; 4], entry: u16, numbers: &[f32; 8], signs: u8, scale: f32) {
    for (at, x) in decoded.iter_mut().enumerate() {
        let number = numbers.get(usize::from(entry >> (4 * at) & 7)).copied().unwrap_or_default();
        *x = signed(scale * number, signs >> at);
    }
}

/// Eight numbers -1, 0 and 1, shifted by an eighth.
#[inline(never)] // several types share it
fn ternary(decoded: &mut [f32; 8], index: [u8; 2], is_negative: bool, scale: f32) {
    let entry = grids::IQ1.entry(u16::from_le_bytes(index));
    let offset = if is_negative { -1.125 } else { -0.875 };
    for (at, x) in decoded.iter_mut().enumerate() {
        *x = scale * (f32::from(entry >> (2 * at) & 3) + offset);
    }
}

/// The number, negated if the lowest bit of `sign` is set.
fn signed(x: f32, sign: u8) -> f32 {
    f32::from_bits(x.to_bits() ^ u32::from(sign) << 31)
}
