//! The model that all apps load. Its tensors have BLAKE3 digests, which workers compute.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use data_encoding::HEXLOWER;
use serde_json::{Map, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, ConvertOptions};
use weightstream_cli::serve::{Running, Server};

/// The name of the file.
const FILE: &str = "sample.aero";

/// A tensor with rows.
pub(super) const MATRIX: &str = "embeddings.weight";

const ROW_BYTES: usize = 512 * 4;

/// The names, dtypes and shapes of the tensors: enough bytes for two workers.
const TENSORS: [(&str, &str, &[usize]); 4] = [
    (MATRIX, "F32", &[2048, 512]),
    ("encoder.bias", "F32", &[512]),
    ("encoder.weight", "BF16", &[1024, 1024]),
    ("position_ids", "I64", &[1, 512]),
];

pub(super) struct Sample {
    /// The folder with the file, which also has the SafeTensors file from which it was converted.
    _folder: TempDir,
    /// Serves the folder.
    server: Running,
    /// The number of bytes of all tensors.
    pub(super) byte_length: u64,
    /// The SHA-256 of each tensor.
    pub(super) tensors: BTreeMap<String, String>,
    /// The SHA-256 of the rows 10 to 20 of [`MATRIX`].
    pub(super) rows: String,
}

impl Sample {
    pub(super) fn url(&self) -> String {
        format!("{}/models/{FILE}", self.server.url())
    }
}

/// Writes and serves the model.
pub(super) fn write() -> Result<Sample> {
    let folder = tempfile::tempdir()?;
    let (mut header, mut data) = (Map::new(), Vec::new());
    let (mut tensors, mut rows) = (BTreeMap::new(), String::new());
    for (name, dtype, shape) in TENSORS {
        let width = match dtype {
            "BF16" => 2,
            "I64" => 8,
            _ => 4,
        };
        let bytes = noise(data.len(), shape.iter().product::<usize>() * width);
        if name == MATRIX {
            rows = sha256(bytes.get(10 * ROW_BYTES..20 * ROW_BYTES).context("the matrix has too few rows")?);
        }
        tensors.insert(name.to_owned(), sha256(&bytes));
        let range = [data.len(), data.len() + bytes.len()];
        header.insert(name.to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": range }));
        data.extend(bytes);
    }
    let byte_length = data.len() as u64;
    let header = serde_json::to_vec(&header)?;
    let source = folder.path().join("sample.safetensors");
    fs::write(&source, [&(header.len() as u64).to_le_bytes(), header.as_slice(), data.as_slice()].concat())?;
    convert(&source, &folder.path().join(FILE))?;
    let server = Server::new().mount("/models", folder.path()).bind("127.0.0.1:0")?.spawn();
    Ok(Sample { _folder: folder, server, byte_length, tensors, rows })
}

fn convert(source: &Path, out: &Path) -> Result<()> {
    write::convert(&Reader::open(source)?, out, &ConvertOptions::default(), &())?;
    Ok(())
}

fn noise(seed: usize, length: usize) -> Vec<u8> {
    let mut state = seed as u32 + 1;
    let bytes = (0..length).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    bytes.collect()
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}
