//! Decodes short floats and quantized blocks to F32.
//!
//! Sources: the Python package `gguf` 0.19 (`quants.dequantize`) for the types of GGUF, and ggml's `ggml-quants.c` for
//! those that the package does not decode (Q1_0, Q2_0 and Q8_K); the OCP specification of 8-bit floats; the crate
//! `apr-format` 0.72 for APR. All products of a scale and a quantized number are exact but the last operation of a
//! value, so that the order of the operations does not change the result: it has the bits of `gguf`.
//!
//! Loops have a fixed length for each block and no branches, so that compilers can vectorize them.

pub(crate) mod apr;
mod block;
mod grid;
mod grids;
mod k_quants;
mod legacy;
mod lookup;
mod ternary;
#[cfg(test)]
mod tests;

use crate::dtype::{APR_Q4, APR_Q8, Dtype};
use weightstream_kernels::floats;

/// Decodes whole blocks of little-endian bytes. The second argument is as long as the elements of the blocks.
pub(crate) type DecodeBlocks = fn(&[u8], &mut [f32]);

/// How the elements of a dtype are decoded.
#[derive(Debug, Clone, Copy)]
pub struct BlockDecoder {
    /// The number of elements in a block.
    pub elements: usize,
    /// The size of a block in bytes.
    pub bytes: usize,
    /// The size of the scale that precedes all blocks, in bytes. Elements are multiplied by the scale, which is an F32.
    pub scale_bytes: usize,
    /// Decodes whole blocks, without the scale that precedes them.
    pub(crate) decode: DecodeBlocks,
}

/// Returns the decoder of a dtype; `None` for integers, and for dtypes that have no decoder.
pub fn decoder_of(dtype: &Dtype) -> Option<BlockDecoder> {
    let (decode, scale_bytes): (DecodeBlocks, usize) = match dtype {
        Dtype::Other(name) => {
            return match &**name {
                APR_Q4 => Some(BlockDecoder { elements: 32, bytes: 18, scale_bytes: 0, decode: apr::q4 }),
                APR_Q8 => Some(BlockDecoder { elements: 1, bytes: 1, scale_bytes: 4, decode: apr::q8 }),
                _ => None,
            };
        }
        _ => (block_decoder(dtype)?, 0),
    };
    let block = dtype.block()?;
    Some(BlockDecoder { elements: block.elements as usize, bytes: block.bytes as usize, scale_bytes, decode })
}

fn block_decoder(dtype: &Dtype) -> Option<DecodeBlocks> {
    Some(match dtype {
        Dtype::F64 => floats::f64,
        Dtype::F32 => floats::f32,
        Dtype::F16 => floats::f16,
        Dtype::BF16 => floats::bf16,
        Dtype::F8_E4M3 => floats::f8_e4m3,
        Dtype::F8_E5M2 => floats::f8_e5m2,
        Dtype::Q1_0 => legacy::q1_0,
        Dtype::Q2_0 => legacy::q2_0,
        Dtype::Q4_0 => legacy::q4_0,
        Dtype::Q4_1 => legacy::q4_1,
        Dtype::Q5_0 => legacy::q5_0,
        Dtype::Q5_1 => legacy::q5_1,
        Dtype::Q8_0 => legacy::q8_0,
        Dtype::Q2_K => k_quants::q2_k,
        Dtype::Q3_K => k_quants::q3_k,
        Dtype::Q4_K => k_quants::q4_k,
        Dtype::Q5_K => k_quants::q5_k,
        Dtype::Q6_K => k_quants::q6_k,
        Dtype::Q8_K => k_quants::q8_k,
        Dtype::IQ1_S => grid::iq1_s,
        Dtype::IQ1_M => grid::iq1_m,
        Dtype::IQ2_XXS => grid::iq2_xxs,
        Dtype::IQ2_XS => grid::iq2_xs,
        Dtype::IQ2_S => grid::iq2_s,
        Dtype::IQ3_XXS => grid::iq3_xxs,
        Dtype::IQ3_S => grid::iq3_s,
        Dtype::IQ4_NL => lookup::iq4_nl,
        Dtype::IQ4_XS => lookup::iq4_xs,
        Dtype::MXFP4 => lookup::mxfp4,
        Dtype::NVFP4 => lookup::nvfp4,
        Dtype::TQ1_0 => ternary::tq1_0,
        Dtype::TQ2_0 => ternary::tq2_0,
        _ => return None,
    })
}
