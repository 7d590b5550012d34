//! Records the positions of the LZ4 blocks of each tensor in the metadata, in the space that is reserved for them
//! before the tensors are written.

use crate::codec::lz4::MAX_BLOCK_BYTES;
use crate::dtype::element_count;
use crate::format::apr::blocks::{DIGITS, KEY};
use crate::index::Tensor;
use crate::output::writer::Compression;
use serde_json::Value;

/// The space that is reserved in the metadata of a file with these tensors.
pub(super) fn reserved_bytes(compression: Compression, tensors: &[Tensor]) -> u64 {
    match tensors.iter().map(|tensor| entry_bytes(compression, tensor)).sum() {
        0 => 0,
        entries => entries + key_bytes(compression),
    }
}

/// The bytes of the key without the tensors.
pub(super) fn key_bytes(compression: Compression) -> u64 {
    if compresses(compression) { KEY.len() as u64 + entry("", "").len() as u64 } else { 0 }
}

/// The maximum bytes for the blocks of a tensor.
pub(super) fn entry_bytes(compression: Compression, tensor: &Tensor) -> u64 {
    let byte_length = element_count(&tensor.shape).ok().and_then(|count| tensor.dtype.byte_length(count).ok()?);
    match byte_length.unwrap_or(0).div_ceil(MAX_BLOCK_BYTES as u64) {
        blocks if blocks > 1 && compresses(compression) => {
            (entry(&tensor.name, "").len() as u64).saturating_add(blocks.saturating_mul(DIGITS as u64))
        }
        _ => 0,
    }
}

fn compresses(compression: Compression) -> bool {
    matches!(compression, Compression::Lz4 | Compression::Auto)
}

/// The blocks of the tensors that were written so far.
#[derive(Default)]
pub(super) struct BlockLengths {
    entries: Vec<String>,
}

impl BlockLengths {
    /// Adds the compressed lengths of a tensor's blocks.
    pub(super) fn add(&mut self, tensor: &Tensor, lengths: &[u32]) {
        if lengths.len() > 1 {
            let digits: String = lengths.iter().map(|length| format!("{length:0DIGITS$x}")).collect();
            self.entries.push(entry(&tensor.name, &digits));
        }
    }

    /// The metadata, a JSON object, with the key for the blocks, and with spaces up to `byte_length`.
    pub(super) fn with_metadata(&self, metadata: &[u8], byte_length: usize) -> Vec<u8> {
        let mut whole = metadata.to_vec();
        if !self.entries.is_empty() && whole.pop() == Some(b'}') {
            let entries = self.entries.concat();
            let entries = entries.trim_end_matches(',');
            whole.extend(format!(",{}:{{{entries}}}}}", Value::from(KEY)).as_bytes());
        }
        whole.resize(byte_length.max(whole.len()), b' ');
        whole
    }
}

fn entry(name: &str, digits: &str) -> String {
    format!("{}:\"{digits}\",", Value::from(name))
}
