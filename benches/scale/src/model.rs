//! A synthetic model in APR shards that are named by their content.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use serde_json::{Map, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{ConvertOptions, convert};

/// The file that clients open: the manifest.
pub(crate) const ENTRY: &str = "model.apr";

/// The length of a row in bytes: 256 floats of 32 bits.
pub(crate) const ROW_BYTES: usize = 1024;

pub(crate) const TENSORS_PER_SHARD: usize = 8;

/// The space in a shard for its header and index.
const HEAD_BYTES: usize = 64 << 10;

/// A model in a temporary folder, and its expected tensors.
pub(crate) struct Model {
    pub(crate) folder: TempDir,
    pub(crate) shards: Vec<Vec<Tensor>>,
    /// The total length of all files in bytes.
    pub(crate) bytes: u64,
}

pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sha256: [u8; 32],
}

impl Model {
    /// Writes a model of so many shards of at most `shard_bytes`. Equal arguments give equal files.
    pub(crate) fn write(shards: usize, shard_bytes: usize) -> Result<Model> {
        let rows = shard_bytes.saturating_sub(HEAD_BYTES) / TENSORS_PER_SHARD / ROW_BYTES;
        ensure!(rows > 0, "a shard needs more than {} KiB", (HEAD_BYTES + TENSORS_PER_SHARD * ROW_BYTES) >> 10);
        let mut random = fastrand::Rng::with_seed(1);
        let shards: Vec<_> = (0..shards).map(|shard| shard_of_tensors(shard, rows * ROW_BYTES, &mut random)).collect();
        let folder = tempfile::Builder::new().prefix("weightstream-scale-").tempdir()?;
        let input = Reader::from_bytes(vec![("model.safetensors".to_owned(), safetensors(&shards))])?;
        let options = ConvertOptions::default().max_shard_bytes(shard_bytes as u64);
        let converted = convert(&input, &folder.path().join(ENTRY), &options, &())?;
        ensure!(converted.files.len() == shards.len(), "{} files were written", converted.files.len());
        let mut manifest = fs::read_to_string(&converted.path)?;
        for (path, _) in &converted.files {
            let (old, new) = rename_by_content(path)?;
            manifest = manifest.replace(&old, &new);
        }
        fs::write(&converted.path, &manifest)?;
        let bytes = converted.files.iter().map(|(_, byte_length)| byte_length).sum::<u64>() + manifest.len() as u64;
        Ok(Model { folder, shards, bytes })
    }

    /// The tensor that clients read rows of.
    pub(crate) fn embedding(&self) -> Result<&Tensor> {
        self.shards.first().and_then(|shard| shard.first()).context("the model has no tensor")
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.shards.iter().flatten().find(|tensor| tensor.name == name)
    }
}

fn shard_of_tensors(shard: usize, byte_length: usize, random: &mut fastrand::Rng) -> Vec<Tensor> {
    let tensor = |number| {
        let mut bytes = vec![0; byte_length];
        random.fill(&mut bytes);
        let sha256 = Sha256::digest(&bytes).into();
        Tensor { name: format!("shard.{shard}.tensor.{number}"), bytes, sha256 }
    };
    (0..TENSORS_PER_SHARD).map(tensor).collect()
}

fn safetensors(shards: &[Vec<Tensor>]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for Tensor { name, bytes, .. } in shards.iter().flatten() {
        let (shape, offsets) = ([bytes.len() / ROW_BYTES, ROW_BYTES / 4], [data.len(), data.len() + bytes.len()]);
        header.insert(name.clone(), json!({ "dtype": "F32", "shape": shape, "data_offsets": offsets }));
        data.extend(bytes);
    }
    let mut header = json!(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes(), &header[..], &data].concat()
}

/// Renames a shard to the start of its SHA-256. Returns the old and the new name.
fn rename_by_content(path: &Path) -> Result<(String, String)> {
    let digest = HEXLOWER.encode(&Sha256::digest(fs::read(path)?));
    let new = format!("{}.apr", digest.get(..16).context("a digest is too short")?);
    fs::rename(path, path.with_file_name(&new))?;
    let old = path.file_name().and_then(|name| name.to_str()).context("a shard has no name")?;
    Ok((old.to_owned(), new))
}
