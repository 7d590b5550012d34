//! Finds the weight of a model that an update of an adapter is for. Adapters spell paths with other prefixes than
//! models, or with underscores.

use super::pairs::Convention;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::quantization::GroupedFile;
use std::collections::HashMap;
use std::sync::Arc;

/// Where a tensor is: the number of the file, and its position in the index of the file.
pub(super) type Position = (usize, usize);

/// The names of the tensors of a model.
pub(super) struct Names<'a> {
    files: &'a [GroupedFile],
    /// By the path with underscores. Filled when it is first needed.
    by_path: HashMap<String, Vec<Position>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(files: &'a [GroupedFile]) -> Self {
        Names { files, by_path: HashMap::new() }
    }

    /// The weight that an update is for, and the component of a model that it belongs to, such as `lora_unet_`, if its
    /// name says so.
    ///
    /// # Errors
    /// `UNSUPPORTED` if several weights have its path with underscores.
    pub(super) fn weight(&mut self, base: &str, convention: Convention) -> Result<(Option<Position>, &'static str)> {
        Ok(match convention {
            Convention::Gguf => (self.find(base), ""),
            Convention::Kohya => {
                let (component, path) = kohya_path(base);
                (self.find_with_underscores(path)?, component)
            }
            Convention::Peft | Convention::PeftEmbedding => {
                let paths = candidates(base);
                (self.first_of(&paths, ".weight").or_else(|| self.first_of(&paths, "")), "")
            }
        })
    }

    /// The tensor that a tensor of an adapter of PEFT replaces, or the name that it has in the model otherwise.
    pub(super) fn replaced(&self, name: &str) -> Result<Position, String> {
        let paths = candidates(name);
        self.first_of(&paths, "").ok_or_else(|| paths.into_iter().next().unwrap_or_else(|| name.to_owned()))
    }

    pub(super) fn tensor(&self, (shard, at): Position) -> Option<Arc<Tensor>> {
        self.files.get(shard)?.index.tensors.get(at)
    }

    fn find(&self, name: &str) -> Option<Position> {
        let find = |(shard, file): (usize, &GroupedFile)| Some((shard, file.index.tensors.position(name)?));
        self.files.iter().enumerate().find_map(find)
    }

    fn first_of(&self, paths: &[String], ending: &str) -> Option<Position> {
        paths.iter().find_map(|path| self.find(&format!("{path}{ending}")))
    }

    fn find_with_underscores(&mut self, path: &str) -> Result<Option<Position>> {
        if self.by_path.is_empty() {
            for (shard, file) in self.files.iter().enumerate() {
                for (at, name) in file.index.tensors.names().enumerate() {
                    for path in with_underscores(name) {
                        self.by_path.entry(path).or_default().push((shard, at));
                    }
                }
            }
        }
        match self.by_path.get(path).map(Vec::as_slice) {
            None => Ok(None),
            Some([only]) => Ok(Some(*only)),
            Some(_) => {
                let error = Error::new(ErrorKind::Unsupported, "several weights of the model have this path");
                Err(error.in_tensor(path).advise("Convert the adapter to the format of PEFT."))
            }
        }
    }
}

/// Prefixes of paths that adapters have and models do not, or the other way round.
const PREFIXES: [&str; 8] = [
    "base_model.model.",
    "model.",
    "diffusion_model.",
    "model.diffusion_model.",
    "transformer.",
    "unet.",
    "text_encoder.",
    "language_model.",
];

/// Names that the weight of a module of PEFT, or a tensor that an adapter replaces, may have in a model.
fn candidates(path: &str) -> Vec<String> {
    // PEFT spells the path of a bias beside its factors with `base_layer`.
    let path = &*path.replace(".base_layer.", ".");
    let own = path.strip_prefix("base_model.model.").unwrap_or(path);
    let mut paths = vec![own.to_owned(), path.to_owned()];
    paths.extend(PREFIXES.iter().filter_map(|prefix| own.strip_prefix(prefix)).map(str::to_owned));
    paths.extend(PREFIXES.iter().map(|prefix| format!("{prefix}{own}")));
    paths
}

/// What kohya's scripts put before the path of a module.
const KOHYA_PREFIXES: [&str; 5] = ["lora_unet_", "lora_te1_", "lora_te2_", "lora_te_", "lora_transformer_"];

/// The component of a model that a name of kohya's scripts belongs to, and the path with underscores.
fn kohya_path(base: &str) -> (&'static str, &str) {
    let of = |prefix: &&'static str| Some((*prefix, base.strip_prefix(*prefix)?));
    KOHYA_PREFIXES.iter().find_map(of).unwrap_or(("", base))
}

/// The path of the module of a weight with underscores, as kohya's scripts spell it, with and without the prefix that a
/// whole checkpoint has.
fn with_underscores(weight: &str) -> Vec<String> {
    let Some(path) = weight.strip_suffix(".weight") else { return Vec::new() };
    let prefixes = ["model.diffusion_model.", "diffusion_model.", "transformer.", "cond_stage_model.transformer."];
    let without = prefixes.iter().filter_map(|prefix| path.strip_prefix(prefix));
    std::iter::once(path).chain(without).map(|path| path.replace('.', "_")).collect()
}
