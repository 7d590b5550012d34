//! Groups the parts of quantized tensors when a model is opened.

use super::file::{FileBytes, TensorFile};
use crate::error::{ErrorKind, Result};
use crate::index::{Index, Part, Tensor, Tensors};
use crate::quantization::{self, Contents, GroupedFile, Grouping, ModelConfig};

/// What grouping leaves besides the indexes.
#[derive(Default)]
pub(super) struct Grouped {
    /// The parts of quantized tensors, which can still be found by name.
    pub(super) parts: Vec<Tensor>,
    /// The `config.json` that was used.
    pub(super) config: Option<ModelConfig>,
}

/// Replaces the parts of quantized tensors by one tensor each. Reads `config.json` with `open` if a tensor is ambiguous
/// without it and no `config` is given.
pub(super) fn group(
    files: &mut [TensorFile],
    config: Option<&ModelConfig>,
    open: &mut dyn FnMut(&Part) -> Result<FileBytes>,
) -> Result<Grouped> {
    let is_candidate = match &*files {
        [only] => quantization::may_be_quantized(&only.index, None),
        several => {
            several.iter().any(|file| quantization::may_be_quantized(&file.index, Some(&mut std::iter::empty())))
        }
    };
    if !is_candidate {
        return Ok(Grouped::default());
    }
    let take = |file: &mut TensorFile| {
        let rest = file.index.with_tensors(Tensors::default());
        let mut index = std::mem::replace(&mut file.index, rest);
        index.tensors.index_names();
        index
    };
    let indexes: Vec<Index> = files.iter_mut().map(take).collect();
    let contents = read_contents(files, &indexes)?;
    let mut grouping = quantization::group(&indexes, config, &contents);
    let (mut config, mut warning) = (config.cloned(), None);
    if grouping.is_ambiguous && config.is_none() {
        match read_config(open) {
            Ok(Some(found)) => {
                grouping = quantization::group(&indexes, Some(&found), &contents);
                config = Some(found);
            }
            Ok(None) => {}
            Err(error) => warning = Some(format!("{} cannot be read: {error}", ModelConfig::FILE_NAME)),
        }
    }
    let Grouping { files: grouped, .. } = grouping;
    let mut parts = Vec::new();
    for (shard, (file, GroupedFile { index, parts: of_file })) in files.iter_mut().zip(grouped).enumerate() {
        file.index = index;
        file.index.warnings.extend(warning.take());
        parts.extend(of_file.into_iter().map(|part| Tensor { shard, ..part }));
    }
    Ok(Grouped { parts, config })
}

fn read_contents(files: &[TensorFile], indexes: &[Index]) -> Result<Contents> {
    let mut contents = Contents::new();
    for (name, shard, range) in quantization::contents_to_read(indexes) {
        if let Some(file) = files.get(shard) {
            let bytes = file.bytes.storage.read(&range);
            contents.insert(name.clone(), bytes.map_err(|e| e.in_tensor(&name).in_file(&file.bytes.name))?.into());
        }
    }
    Ok(contents)
}

/// The `config.json` beside the model; `None` if there is none.
fn read_config(open: &mut dyn FnMut(&Part) -> Result<FileBytes>) -> Result<Option<ModelConfig>> {
    let file = match open(&Part { path: ModelConfig::FILE_NAME.to_owned(), ..Part::default() }) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let json = file.parse(|window| Ok(window.get_all(ModelConfig::MAX_BYTES)?.to_vec()))?;
    ModelConfig::from_json(&json).map(Some)
}
