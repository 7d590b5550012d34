//! The model: a sparse SafeTensors file.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, json};

/// The rows and columns of each tensor, 32 MiB of BF16: as the matrices of models with 7 to 13 billion parameters.
const SHAPE: [u64; 2] = [4096, 4096];

/// Writes a file of about this size, and returns the number of its tensors.
pub(crate) fn write(path: &Path, byte_length: u64) -> Result<u64> {
    let tensor_bytes = 2 * SHAPE.iter().product::<u64>();
    let count = byte_length.div_ceil(tensor_bytes);
    let tensor = |number: u64| {
        let offsets = [number * tensor_bytes, (number + 1) * tensor_bytes];
        let name = format!("model.layers.{}.{}.weight", number / 7, number % 7);
        (name, json!({ "dtype": "BF16", "shape": SHAPE, "data_offsets": offsets }))
    };
    let header = serde_json::to_vec(&(0..count).map(tensor).collect::<Map<_, _>>())?;
    let mut file = File::create(path)?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    file.set_len(8 + header.len() as u64 + count * tensor_bytes)?;
    Ok(count)
}
