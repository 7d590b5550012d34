//! A linear layer as a model, which the graph of `tests/runtimes/graph.js` computes with.

use std::path::Path;

use anyhow::Result;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};

/// Small enough for several files.
const SHARD_BYTES: u64 = 100_000;

/// The shape of the layer, which `tests/runtimes/graph.js` has too.
const ROWS: usize = 512;
const COLUMNS: usize = 768;

/// Writes the weights of a linear layer: as `model.apr`, compressed and in several files, and as `model.safetensors`,
/// the same model as one SafeTensors file without metadata.
pub fn write(folder: &Path) -> Result<()> {
    let entry = |name: &str, shape: &[usize], start: usize, count: usize| {
        let offsets = [start * 4, (start + count) * 4];
        format!(r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":{offsets:?}}}"#)
    };
    let (weights, bias) =
        (entry("W", &[ROWS, COLUMNS], 0, ROWS * COLUMNS), entry("b", &[COLUMNS], ROWS * COLUMNS, COLUMNS));
    let header = format!("{{{weights},{bias}}}");
    let values = (0..(ROWS + 1) * COLUMNS).flat_map(|at| ((at * 31 % 257) as f32 / 257.0 - 0.5).to_le_bytes());
    let file: Vec<u8> =
        (header.len() as u64).to_le_bytes().into_iter().chain(header.into_bytes()).chain(values).collect();
    let model = Reader::from_bytes(vec![("model.safetensors".to_owned(), file)])?;
    let compressed = ConvertOptions::default().compression(Compression::Lz4).max_shard_bytes(SHARD_BYTES);
    write::convert(&model, &folder.join("model.apr"), &compressed, &())?;
    let plain = ConvertOptions::default().omit_metadata(true);
    write::convert(&model, &folder.join("model.safetensors"), &plain, &())?;
    Ok(())
}
