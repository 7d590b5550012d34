//! The index of a model in several files that Hugging Face's tools have for SafeTensors: the file of each tensor. It
//! does not state the format of the files, and serves formats without a manifest of their own.

use super::file::{FinishedFile, PartialFile};
use super::target::Shard;
use crate::error::Result;
use crate::index::Metadata;
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

/// Writes the index. `metadata` is that of the files, such as their size, and not of the model.
///
/// # Errors
/// `IO`.
pub(crate) fn write(mut manifest: PartialFile, shards: &[Shard], metadata: Metadata) -> Result<Vec<FinishedFile>> {
    let files = shards.iter().flat_map(|shard| shard.tensors.iter().map(|tensor| (tensor, shard.file.name())));
    let weight_map: Metadata = files.map(|(tensor, file)| (tensor.name.clone(), file.into())).collect();
    let mut document = Metadata::new();
    if !metadata.is_empty() {
        document.insert("metadata".to_owned(), metadata.into());
    }
    document.insert("weight_map".to_owned(), weight_map.into());
    manifest.write_json(&document.into())?;
    Ok(vec![manifest.finish()?])
}
