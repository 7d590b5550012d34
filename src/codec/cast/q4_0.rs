//! Q4_0: a scale as an F16, followed by 32 elements of 4 bits, where 8 is zero.
//!
//! Source: the Python package `gguf` 0.19 (`quants.Q4_0.quantize_blocks`), with its arithmetic in F32.

use weightstream_kernels::floats::{INFINITY, to_f16};

const BLOCK_ELEMENTS: usize = 32;
const BLOCK_BYTES: usize = 2 + BLOCK_ELEMENTS / 2;

pub(super) fn encode(floats: &[f32], out: &mut [u8]) {
    let (blocks, _) = floats.as_chunks();
    let (encoded, _) = out.as_chunks_mut();
    blocks.iter().zip(encoded).for_each(|(block, encoded)| encode_block(block, encoded));
}

fn encode_block(block: &[f32; BLOCK_ELEMENTS], encoded: &mut [u8; BLOCK_BYTES]) {
    // The scale has the opposite sign of the largest number, which becomes 0: -8 steps.
    let step = largest(block) / -8.0;
    let inverse = if step == 0.0 { 0.0 } else { 1.0 / step };
    let (low, high) = block.split_at(BLOCK_ELEMENTS / 2);
    let (scale, quants) = encoded.split_at_mut(2);
    scale.copy_from_slice(&to_f16(step).to_le_bytes());
    for (quant, (low, high)) in quants.iter_mut().zip(low.iter().zip(high)) {
        *quant = round(low * inverse) | round(high * inverse) << 4;
    }
}

/// The first number of the largest magnitude. NaN counts as larger than all numbers.
fn largest(block: &[f32; BLOCK_ELEMENTS]) -> f32 {
    let magnitude = |x: f32| match x.to_bits() & 0x7fff_ffff {
        number @ ..=INFINITY => number,
        _ => u32::MAX,
    };
    let larger = |largest: f32, x: f32| if magnitude(x) > magnitude(largest) { x } else { largest };
    block.iter().copied().reduce(larger).unwrap_or_default()
}

/// The number of 4 bits for a number of steps. NaN and infinities become 0, as in `gguf`.
fn round(steps: f32) -> u8 {
    let shifted = steps + 8.5;
    if shifted.is_finite() { (shifted as u8).min(15) } else { 0 }
}
