//! Types whose elements are -1, 0 and 1 with one scale: TQ1_0 and TQ2_0.

use super::block::{self, BlockFields, bits};

/// Five elements in a byte, as the digits of a fraction in base 3; in the last four bytes, four elements. Multiplied by
/// a power of 3, the byte overflows to the digits that follow.
pub(super) fn tq1_0(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 54], decoded: &mut [f32; 256]| {
        let mut fields = BlockFields::of(block);
        let (first, second, third) = (fields.bytes::<32>(), fields.bytes::<16>(), fields.bytes::<4>());
        let scale = fields.half();
        let mut decoded = decoded.iter_mut();
        for (quants, powers) in
            [(&first[..], &[1, 3, 9, 27, 81][..]), (second, &[1, 3, 9, 27, 81]), (third, &[1, 3, 9, 27])]
        {
            for power in powers {
                for (quant, x) in quants.iter().zip(&mut decoded) {
                    let digit = (u16::from(quant.wrapping_mul(*power)) * 3) >> 8;
                    *x = scale * (f32::from(digit) - 1.0);
                }
            }
        }
    });
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
