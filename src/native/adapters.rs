//! Opens adapters, and adds their updates to the weights of a model.

use super::file::{FileBytes, TensorFile};
#[cfg(native)]
use super::folder::model_path;
use crate::adapter::{self, AdapterFile};
#[cfg(native)]
use crate::adapter::{Adapter, AdapterConfig};
use crate::error::{Error, ErrorKind, Result};
#[cfg(native)]
use crate::index::Parsed;
use crate::index::{Tensor, Tensors};
use crate::quantization::GroupedFile;
#[cfg(native)]
use std::path::Path;

/// Opens the files of adapters.
#[cfg(native)]
pub(super) fn open(adapters: &[Adapter]) -> Result<Vec<(FileBytes, AdapterFile)>> {
    adapters.iter().map(open_one).collect()
}

#[cfg(native)]
fn open_one(settings: &Adapter) -> Result<(FileBytes, AdapterFile)> {
    settings.check()?;
    let path = &*model_path(settings.location())?;
    let (file, parsed) = FileBytes::open(path)?.unpack(None)?;
    let Parsed::File(mut index) = parsed else {
        let error = Error::new(ErrorKind::Unsupported, "an adapter must be one file").in_file(&file.name);
        return Err(error.advise("Open the file with its tensors."));
    };
    index.tensors.index_names();
    let mut adapter = AdapterFile { name: file.name.clone(), index, settings: settings.clone() };
    if adapter.needs_config()? {
        adapter = adapter.with_config(read_config(path.parent().unwrap_or(Path::new("")))?)?;
    }
    Ok((file, adapter))
}

/// Replaces the tensors that adapters update, and appends the files of the adapters. Returns the tensors of the
/// adapters, which can still be found by name.
pub(super) fn apply(files: &mut Vec<TensorFile>, adapters: Vec<(FileBytes, AdapterFile)>) -> Result<Vec<Tensor>> {
    if adapters.is_empty() {
        return Ok(Vec::new());
    }
    let take = |file: &mut TensorFile| {
        let rest = file.index.with_tensors(Tensors::default());
        let mut index = std::mem::replace(&mut file.index, rest);
        index.tensors.index_names();
        GroupedFile { index, parts: Vec::new() }
    };
    let grouped = files.iter_mut().map(take).collect();
    let (bytes, adapters): (Vec<_>, Vec<_>) = adapters.into_iter().unzip();
    let mut parts = Vec::new();
    let mut bytes = bytes.into_iter();
    for (shard, GroupedFile { index, parts: of_file }) in adapter::apply(grouped, adapters)?.into_iter().enumerate() {
        parts.extend(of_file);
        match files.get_mut(shard) {
            Some(file) => file.index = index,
            None => {
                let file = bytes.next().ok_or_else(|| Error::new(ErrorKind::Internal, "an adapter has no file"))?;
                files.push(TensorFile::new(file, index)?);
            }
        }
    }
    Ok(parts)
}

/// The `adapter_config.json` in a folder; `None` if there is none.
#[cfg(native)]
fn read_config(folder: &Path) -> Result<Option<AdapterConfig>> {
    let file = match FileBytes::open(&folder.join(AdapterConfig::FILE_NAME)) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let json = file.parse(|window| Ok(window.get_all(AdapterConfig::MAX_BYTES)?.to_vec()))?;
    AdapterConfig::from_json(&json).map(Some)
}
