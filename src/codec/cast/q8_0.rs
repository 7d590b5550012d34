//! Q8_0: a scale as an F16, followed by 32 elements as signed bytes.
//!
//! Source: the Python package `gguf` 0.19 (`quants.Q8_0.quantize_blocks`), with its arithmetic in F32.

use weightstream_kernels::floats::to_f16;

const BLOCK_ELEMENTS: usize = 32;
const BLOCK_BYTES: usize = 2 + BLOCK_ELEMENTS;
const COUNTS_IN_ONES: f32 = 8_388_608.0; // 2^23

pub(super) fn encode(floats: &[f32], out: &mut [u8]) {
    let (blocks, _) = floats.as_chunks();
    let (encoded, _) = out.as_chunks_mut();
    blocks.iter().zip(encoded).for_each(|(block, encoded)| encode_block(block, encoded));
}

fn encode_block(block: &[f32; BLOCK_ELEMENTS], encoded: &mut [u8; BLOCK_BYTES]) {
    // As integers, the bits of magnitudes are ordered like their values, with infinity and then NaN last, like numpy's
    // `max`. For NaN it returns the canonical NaN.
    let largest = block.iter().fold(0, |largest: u32, x| largest.max(x.to_bits() & 0x7fff_ffff));
    let step = f32::from_bits(largest.min(f32::NAN.to_bits())) / 127.0;
    // The inverse of a scale below 2^-128 is infinite. gguf then computes only infinities and NaN, which become 0;
    // for a scale of 0 it sets 0 explicitly.
    let inverse = Some(1.0 / step).filter(|inverse| inverse.is_finite()).unwrap_or(0.0);
    let (scale, quants) = encoded.split_at_mut(2);
    scale.copy_from_slice(&to_f16(step).to_le_bytes());
    quants.iter_mut().zip(block).for_each(|(quant, x)| *quant = round(x * inverse));
}

/// Rounds to the nearest integer, ties away from zero, as a signed byte; 0 for NaN. `x` is at most 127, or NaN. The
/// standard library's `round` is not vectorized for targets without SSE4.1.
fn round(x: f32) -> u8 {
    // From 2^23 on, F32 values are integers: the addition rounds, ties to even, and its last byte is the result.
    let magnitude = x.abs();
    let to_even = magnitude + COUNTS_IN_ONES;
    let is_one_short = magnitude - (to_even - COUNTS_IN_ONES) == 0.5;
    let rounded = if x.is_nan() { 0 } else { to_even.to_bits().wrapping_add(u32::from(is_one_short)) };
    (if x < 0.0 { rounded.wrapping_neg() } else { rounded }) as u8
}
