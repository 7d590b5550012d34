//! Writes the types of tensors whose dtypes only ggml has into the metadata of their file.

use crate::format::apr::draft::dtype_code;
use crate::format::apr::ggml_types::{CODE, KEY};
use crate::format::ggml;
use crate::index::Tensor;
use serde_json::Value;

/// The code of a dtype in the index; `None` if neither the specification nor ggml has it.
pub(super) fn code_of(tensor: &Tensor) -> Option<u8> {
    dtype_code(&tensor.dtype).or_else(|| ggml::number_of(&tensor.dtype).map(|_| CODE))
}

/// Whether only weightstream reads the tensor.
pub(super) fn is_extension(tensor: &Tensor) -> bool {
    code_of(tensor) == Some(CODE)
}

/// The bytes that a tensor adds to the metadata if it is the only one. Further ones add less, without the key.
pub(super) fn max_entry_bytes(tensor: &Tensor) -> u64 {
    entry(tensor).map_or(0, |entry| with_key(&entry).len() as u64)
}

/// The metadata, a JSON object with at least one key, with the types of the tensors.
pub(super) fn with_types(metadata: &[u8], tensors: &[Tensor]) -> Vec<u8> {
    let mut whole = metadata.to_vec();
    let entries = tensors.iter().filter_map(entry).collect::<Vec<_>>();
    if !entries.is_empty() && whole.pop() == Some(b'}') {
        whole.extend(with_key(&entries.join(",")).as_bytes());
        whole.push(b'}');
    }
    whole
}

fn with_key(entries: &str) -> String {
    format!(",{}:{{{entries}}}", Value::from(KEY))
}

fn entry(tensor: &Tensor) -> Option<String> {
    let number = ggml::number_of(&tensor.dtype).filter(|_| is_extension(tensor))?;
    Some(format!("{}:{number}", Value::from(&*tensor.name)))
}
