//! Types whose elements are -1, 0 and 1 with one scale: TQ1_0 and TQ2_0.

use super::block::{self, BlockFields, bits};

/// Five elements in a byte, as the digits of a fraction in base 3; in the last four bytes, four elements. Multiplied by
/// a power of 3, the byte overflows to the digits that follow.
pub(super) fn tq1_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 54], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (first, second, third) = (fields.bytes::<32>(), fields.bytes::<16>(), fields.bytes::<4>());
        let scale = fields.half();
        let (first_decoded, decoded) = decoded.split_at_mut(5 * 32);
        let (second_decoded, third_decoded) = decoded.split_at_mut(5 * 16);
        digits(first, scale, first_decoded);
        digits(second, scale, second_decoded);
        digits(third, scale, third_decoded);
    });
}

/// Decodes the first digit of each byte, then the second ones. The number of bytes is a multiple of 4.
#[inline(never)] // called three times
fn digits(quants: &[u8], scale: f32, decoded: &mut [f32]) {
    for (decoded, power) in decoded.chunks_exact_mut(quants.len()).zip([1, 3, 9, 27, 81]) {
        let (decoded, quants) = (decoded.as_chunks_mut::<4>().0, quants.as_chunks::<4>().0);
        for (decoded, quants) in decoded.iter_mut().zip(quants) {
            *decoded = quants.map(|quant| {
                let digit = (u16::from(quant.wrapping_mul(power)) * 3) >> 8;
                scale * (f32::from(digit) - 1.0)
            });
        }
    }
}

/// Two bits for each element.
pub(super) fn tq2_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 66], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (quants, scale) = (fields.bytes::<64>(), fields.half());
        for (group, decoded) in decoded.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let quants: &[u8; 32] = block::part(quants, group / 4);
            for (x, quant) in decoded.iter_mut().zip(quants) {
                *x = scale * (f32::from(bits(*quant, group % 4 * 2, 3)) - 1.0);
            }
        }
    });
}
