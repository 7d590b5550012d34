//! The model: a SafeTensors file of normally distributed weights.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use xtask::synthetic::Random;

/// The rows and columns of each tensor, 64 MiB of F32.
const SHAPE: [usize; 2] = [4096, 4096];

/// Writes a file of about this size.
pub(crate) fn write(path: &Path, byte_length: u64) -> Result<()> {
    let tensor_bytes = 4 * SHAPE.iter().product::<usize>() as u64;
    let count = byte_length.div_ceil(tensor_bytes);
    let [rows, columns] = SHAPE;
    let tensor = |number: u64| {
        let offsets = [number * tensor_bytes, (number + 1) * tensor_bytes];
        format!(r#""layers.{number}.weight":{{"dtype":"F32","shape":[{rows},{columns}],"data_offsets":{offsets:?}}}"#)
    };
    let mut header = format!("{{{}}}", (0..count).map(tensor).collect::<Vec<_>>().join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut random = Random::new(1);
    let row: Vec<u8> = (0..columns * 16).flat_map(|_| (0.02 * random.normal()).to_le_bytes()).collect();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for number in 0..count * rows as u64 / 16 {
        // Rotated, so that parts differ.
        let (start, end) = row.split_at(number as usize * 64 % row.len());
        file.write_all(end)?;
        file.write_all(start)?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}
