//! Blocks of 256 elements, in groups of 16 or 32 that have a scale each: Q2_K to Q6_K, and Q8_K.

use super::block::{self, BlockFields, bits, byte, part};

/// The elements of a block in groups of `N`, with the number of each.
fn groups<const N: usize>(decoded: &mut [f32; 256]) -> impl Iterator<Item = (usize, &mut [f32; N])> {
    decoded.as_chunks_mut().0.iter_mut().enumerate()
}

pub(super) fn q2_k(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 84], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scales, quants) = (fields.bytes::<16>(), fields.bytes::<64>());
        let (scale, minimum) = (fields.half(), fields.half());
        for (group, decoded) in groups::<16>(decoded) {
            let both = byte(scales, group);
            let (scale, minimum) = (scale * f32::from(both & 15), minimum * f32::from(both >> 4));
            let quants: &[u8; 16] = part(quants, group / 8 * 2 + group % 2);
            let shift = group % 8 / 2 * 2;
            for (x, quant) in decoded.iter_mut().zip(quants) {
                *x = scale * f32::from(bits(*quant, shift, 3)) - minimum;
            }
        }
    });
}

pub(super) fn q3_k(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 110], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (high_bits, quants) = (fields.bytes::<32>(), fields.bytes::<64>());
        let (low_scales, high_scales) = (fields.bytes::<8>(), fields.bytes::<4>());
        let scale = fields.half();
        for (group, decoded) in groups::<16>(decoded) {
            let low = bits(byte(low_scales, group % 8), group / 8 * 4, 15);
            let high = bits(byte(high_scales, group % 4), group / 4 * 2, 3);
            let scale = scale * (f32::from(low | high << 4) - 32.0);
            let quants: &[u8; 16] = part(quants, group / 8 * 2 + group % 2);
            let high_bits: &[u8; 16] = part(high_bits, group % 2);
            let (shift, high_shift) = (group % 8 / 2 * 2, group / 2);
            for (x, (quant, high_bit)) in decoded.iter_mut().zip(quants.iter().zip(high_bits)) {
                let quant = bits(*quant, shift, 3) | bits(*high_bit, high_shift, 1) << 2;
                *x = scale * (f32::from(quant) - 4.0);
            }
        }
    });
}

pub(super) fn q4_k(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 144], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, minimum) = (fields.half(), fields.half());
        let (scales, quants) = (fields.bytes::<12>(), fields.bytes::<128>());
        for (group, decoded) in groups::<32>(decoded) {
            let (scale, minimum) = scale_and_minimum(scales, group, scale, minimum);
            let quants: &[u8; 32] = part(quants, group / 2);
            let shift = group % 2 * 4;
            for (x, quant) in decoded.iter_mut().zip(quants) {
                *x = scale * f32::from(bits(*quant, shift, 15)) - minimum;
            }
        }
    });
}

pub(super) fn q5_k(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 176], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, minimum) = (fields.half(), fields.half());
        let (scales, high_bits) = (fields.bytes::<12>(), fields.bytes::<32>());
        let quants = fields.bytes::<128>();
        for (group, decoded) in groups::<32>(decoded) {
            let (scale, minimum) = scale_and_minimum(scales, group, scale, minimum);
            let quants: &[u8; 32] = part(quants, group / 2);
            let shift = group % 2 * 4;
            for (x, (quant, high_bit)) in decoded.iter_mut().zip(quants.iter().zip(high_bits)) {
                let quant = bits(*quant, shift, 15) | bits(*high_bit, group, 1) << 4;
                *x = scale * f32::from(quant) - minimum;
            }
        }
    });
}

/// The scale and the minimum of a group of 32 elements: 6 bits each, of which the upper two of the last four groups are
/// in the bytes of the first four groups.
fn scale_and_minimum(scales: &[u8; 12], group: usize, scale: f32, minimum: f32) -> (f32, f32) {
    let (own_scale, own_minimum) = match group.checked_sub(4) {
        None => (byte(scales, group) & 63, byte(scales, group + 4) & 63),
        Some(first) => {
            let low = byte(scales, first + 8);
            (low & 15 | byte(scales, first) >> 6 << 4, low >> 4 | byte(scales, first + 4) >> 6 << 4)
        }
    };
    (scale * f32::from(own_scale), minimum * f32::from(own_minimum))
}

pub(super) fn q6_k(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 210], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (low_bits, high_bits) = (fields.bytes::<128>(), fields.bytes::<64>());
        let (scales, scale) = (fields.bytes::<16>(), fields.half());
        for (group, decoded) in groups::<16>(decoded) {
            let scale = scale * f32::from(byte(scales, group) as i8);
            // A half of the block has 8 groups. The lower halves of 64 bytes are its first 4, the upper ones the
            // others.
            let (half, group) = (group / 8, group % 8);
            let low_bits: &[u8; 16] = part(low_bits, half * 4 + group % 4);
            let high_bits: &[u8; 16] = part(high_bits, half * 2 + group % 2);
            let (shift, high_shift) = (group / 4 * 4, group / 2 * 2);
            for (x, (low, high)) in decoded.iter_mut().zip(low_bits.iter().zip(high_bits)) {
                let quant = bits(*low, shift, 15) | bits(*high, high_shift, 3) << 4;
                *x = scale * (f32::from(quant) - 32.0);
            }
        }
    });
}

/// A scale as an F32, a signed byte for each element, and sums of 16 elements, which are not needed.
pub(super) fn q8_k(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 292], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants) = (f32::from_le_bytes(*fields.bytes()), fields.bytes::<256>());
        decoded.iter_mut().zip(quants).for_each(|(x, quant)| *x = scale * f32::from(*quant as i8));
    });
}
