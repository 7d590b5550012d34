//! What a safetensors file holds, read without the library: the truth that the library is held to.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// A tensor as it must arrive, in the terms in which the demo page reports what did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedTensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub byte_length: u64,
    /// Of the tensor's bytes, in hexadecimal.
    pub sha256: String,
}

/// The tensors of a safetensors file: the length of its header (8 bytes), the header in JSON, the data.
pub fn tensors(file: &Path) -> Result<Vec<ExpectedTensor>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (length, rest) = bytes.split_first_chunk().context("the file has no header")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let (header, data) = rest.split_at_checked(length).context("the header is cut off")?;
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
    let bytes = data.get(start..end).context("its data lie outside of the file")?;
    let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
    Ok(ExpectedTensor { name: name.to_owned(), dtype, shape, byte_length: bytes.len() as u64, sha256 })
}
