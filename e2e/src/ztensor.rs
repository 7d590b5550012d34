//! Writes small zTensor files with a digest for each tensor.

use std::fs;
use std::path::Path;

use anyhow::Result;
use minicbor::Encoder;
use sha2::{Digest, Sha256};

const MAGIC: &[u8] = b"ZTEN1000";

/// The alignment of blobs in bytes.
const ALIGNMENT: usize = 64;

/// Writes tensors of dtype U8, each with its SHA-256.
pub fn write(path: &Path, tensors: &[(&str, &[u8])]) -> Result<()> {
    let mut file = MAGIC.to_vec();
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(2)?.str("version")?.str("1.2.0")?.str("objects")?.map(tensors.len() as u64)?;
    for (name, bytes) in tensors {
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        let digest = format!("sha256:{}", data_encoding::HEXLOWER.encode(&Sha256::digest(bytes)));
        let length = bytes.len() as u64;
        cbor.str(name)?.map(3)?.str("format")?.str("dense")?.str("shape")?.array(1)?.u64(length)?;
        cbor.str("components")?.map(1)?.str("data")?.map(4)?;
        cbor.str("dtype")?.str("u8")?.str("offset")?.u64(file.len() as u64)?;
        cbor.str("length")?.u64(length)?.str("digest")?.str(&digest)?;
        file.extend(*bytes);
    }
    let manifest = cbor.into_writer();
    file.extend(&manifest);
    file.extend((manifest.len() as u64).to_le_bytes());
    file.extend(MAGIC);
    Ok(fs::write(path, file)?)
}
