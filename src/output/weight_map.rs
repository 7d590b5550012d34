//! The index of a model in several files that Hugging Face's tools have for SafeTensors: the file of each tensor. It
//! does not state the format of the files, and serves formats without a manifest of their own.

use super::file::{FinishedFile, PartialFile};
use super::target::Shard;
use crate::error::Result;
use crate::index::Tensor;
use serde_json::{Map, json};
use std::path::{Path, PathBuf};

/// The path of the index of `out`: `model.safetensors.index.json`, unless `out` already ends with `.json`.
pub(crate) fn path(out: &Path) -> PathBuf {
    if out.extension().is_some_and(|extension| extension == "json") {
        return out.to_owned();
    }
    let mut name = out.as_os_str().to_owned();
    name.push(".index.json");
    PathBuf::from(name)
}

/// Writes the index. `byte_length` is that of a decoded tensor.
///
/// # Errors
/// `IO`; errors of `byte_length`.
pub(crate) fn write(
    mut manifest: PartialFile,
    shards: &[Shard],
    byte_length: impl Fn(&Tensor) -> Result<u64>,
) -> Result<Vec<FinishedFile>> {
    let mut weight_map = Map::new();
    let mut total_size = 0;
    for shard in shards {
        for tensor in shard.tensors {
            weight_map.insert(tensor.name.clone(), shard.file.name().into());
            total_size += byte_length(tensor)?;
        }
    }
    manifest.write_json(&json!({ "metadata": { "total_size": total_size }, "weight_map": weight_map }))?;
    Ok(vec![manifest.finish()?])
}
