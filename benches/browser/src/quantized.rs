//! GGUF models of quantized tensors, for cases that convert them to floats.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use xtask::synthetic::Random;

use crate::content::TENSOR_BYTES;
use crate::models::TENSORS;

/// A model whose tensors have as many elements as those of the other models have F32 elements.
#[derive(Clone, Copy)]
pub(super) struct Quantized {
    pub(super) file: &'static str,
    /// The number of the dtype in GGUF.
    number: u32,
    block_elements: usize,
    block_bytes: usize,
    /// The number of F16 scales at the start of a block.
    scales: usize,
}

pub(super) const Q8_0: Quantized =
    Quantized { file: "q8_0.gguf", number: 8, block_elements: 32, block_bytes: 34, scales: 1 };
pub(super) const Q4_K: Quantized =
    Quantized { file: "q4_k.gguf", number: 12, block_elements: 256, block_bytes: 144, scales: 2 };

/// The size of a row in elements.
const ROW: usize = 1024;

const ALIGNMENT: usize = 32;

/// 2^-8 as an F16.
const SCALE: [u8; 2] = [0x00, 0x1c];

/// Writes a GGUF file of tensors with random quanta.
pub(super) fn write(path: &Path, quantized: &Quantized) -> Result<()> {
    let elements = TENSOR_BYTES / 4;
    let byte_length = elements / quantized.block_elements * quantized.block_bytes;
    let mut head = b"GGUF".to_vec();
    head.extend(3_u32.to_le_bytes());
    head.extend((TENSORS as u64).to_le_bytes());
    head.extend(0_u64.to_le_bytes()); // keys
    for tensor in 0..TENSORS {
        let name = format!("layers.{tensor}.weight");
        head.extend((name.len() as u64).to_le_bytes());
        head.extend(name.as_bytes());
        head.extend(2_u32.to_le_bytes()); // dimensions
        head.extend([ROW, elements / ROW].map(|size| (size as u64).to_le_bytes()).as_flattened());
        head.extend(quantized.number.to_le_bytes());
        head.extend(((tensor * byte_length) as u64).to_le_bytes());
    }
    head.resize(head.len().next_multiple_of(ALIGNMENT), 0);
    let data = blocks(quantized, byte_length);
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&head)?;
    for tensor in 0..TENSORS {
        // Rotates whole blocks, so that each tensor differs.
        let (start, end) = data.split_at(tensor * quantized.block_bytes);
        file.write_all(end)?;
        file.write_all(start)?;
    }
    Ok(file.flush()?)
}

fn blocks(quantized: &Quantized, byte_length: usize) -> Vec<u8> {
    let mut random = Random::new(11);
    let mut data: Vec<u8> = (0..byte_length).map(|_| (40.0 * random.normal()) as i8 as u8).collect();
    for block in data.chunks_exact_mut(quantized.block_bytes) {
        let scales = block.as_chunks_mut::<2>().0;
        scales.iter_mut().take(quantized.scales).for_each(|scale| *scale = SCALE);
    }
    data
}
