//! Reads SafeTensors files independently of the library, to get the expected tensors for tests.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// An expected tensor, in the format of the demo page's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedTensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub byte_length: u64,
    /// The SHA-256 of the tensor's bytes, in hexadecimal.
    pub sha256: String,
}

/// Reads the tensors of a SafeTensors file, which consists of the length of the header (8 bytes), the JSON header and
/// the data.
pub fn tensors(file: &Path) -> Result<Vec<ExpectedTensor>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (length, rest) = bytes.split_first_chunk().context("the file has no header")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let (header, data) = rest.split_at_checked(length).context("the header is truncated")?;
    let header: Map<String, Value> = serde_json::from_slice(header)?;
    let tensors = header.iter().filter(|(name, _)| *name != "__metadata__");
    tensors.map(|(name, entry)| tensor(name, entry, data).with_context(|| name.clone())).collect()
}

fn tensor(name: &str, entry: &Value, data: &[u8]) -> Result<ExpectedTensor> {
    #[derive(Deserialize)]
    struct Entry {
        dtype: String,
        shape: Vec<u64>,
        data_offsets: [usize; 2],
    }
    let Entry { dtype, shape, data_offsets: [start, end] } = Entry::deserialize(entry)?;
    let bytes = data.get(start..end).context("the data is outside of the file")?;
    let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
    Ok(ExpectedTensor { name: name.to_owned(), dtype, shape, byte_length: bytes.len() as u64, sha256 })
}
