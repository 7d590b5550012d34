//! The quantized types that only APR has.

use super::block::{self, BlockFields};

/// A scale, then 32 elements of 4 bits, where 8 is zero. A byte has two neighbouring elements, the lower half first.
pub(super) fn q4(bytes: &[u8], floats: &mut [f32]) {
    block::decode(bytes, floats, |block: &[u8; 18], decoded: &mut [f32; 32]| {
        let mut fields = BlockFields::of(block);
        let (scale, quants) = (fields.half(), fields.bytes::<16>());
        for (pair, quants) in decoded.as_chunks_mut::<2>().0.iter_mut().zip(quants) {
            *pair = [quants & 15, quants >> 4].map(|quant| scale * (f32::from(quant) - 8.0));
        }
    });
}

/// Signed bytes. The scale of the tensor, which precedes them, is not applied.
pub(super) fn q8(bytes: &[u8], floats: &mut [f32]) {
    floats.iter_mut().zip(bytes).for_each(|(x, quant)| *x = f32::from(*quant as i8));
}
