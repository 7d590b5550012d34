//! Replaces the weights that adapters update by adapted tensors.

use super::AdapterFile;
use super::adapted::adapted;
use super::names::{Names, Position};
use super::pairs::Pairs;
use super::update::UpdateParts;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Tensor, Tensors};
use crate::quantization::GroupedFile;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Replaces the tensors of a model that adapters update. The files of the adapters follow those of the model.
///
/// # Errors
/// `NOT_FOUND` for an update of a weight that the model does not have; `FORMAT` if shapes do not match; `UNSUPPORTED`
/// for weights and adapters that cannot be added.
pub(crate) fn apply(mut files: Vec<GroupedFile>, adapters: Vec<AdapterFile>) -> Result<Vec<GroupedFile>> {
    let model_files = files.len();
    let mut changes = Changes::default();
    for (number, mut adapter) in adapters.into_iter().enumerate() {
        let shard = model_files + number;
        let model = files.get(..model_files).unwrap_or_default();
        let extra = changes.add(model, &mut adapter, (number, shard)).map_err(|e| e.in_file(&adapter.name))?;
        let AdapterFile { mut index, .. } = adapter;
        let parts = index.tensors.to_vec().into_iter().map(|part| Tensor { shard, ..part }).collect();
        index.tensors = Tensors::from(extra);
        index.tensors.set_shard(shard);
        index.tensors.index_names();
        files.push(GroupedFile { index, parts });
    }
    for (shard, file) in files.iter_mut().enumerate().take(model_files) {
        let count = file.index.tensors.len();
        if changes.of_tensors.range((shard, 0)..(shard, count)).next().is_none() {
            continue;
        }
        let mut tensors = Vec::with_capacity(count);
        for (at, tensor) in file.index.tensors.iter().enumerate() {
            let tensor = Tensor { shard, ..Arc::unwrap_or_clone(tensor) };
            tensors.push(match changes.of_tensors.remove(&(shard, at)) {
                Some(change) => {
                    let name = tensor.name.clone();
                    change.apply(tensor).map_err(|error| error.in_tensor(&name))?
                }
                None => tensor,
            });
        }
        file.index.tensors = Tensors::from(tensors);
        file.index.tensors.index_names();
    }
    Ok(files)
}

/// What adapters do to a tensor of the model.
#[derive(Default)]
struct Change {
    /// The tensor in its place, and the number of its file.
    replacement: Option<(Tensor, usize)>,
    updates: Vec<UpdateParts>,
}

/// What adapters do to a model.
#[derive(Default)]
struct Changes {
    of_tensors: BTreeMap<Position, Change>,
    /// The names of the tensors that adapters add.
    added: HashSet<String>,
}

impl Changes {
    /// Adds what an adapter, with this number and that of its file, changes. Returns its tensors that the model does
    /// not have.
    fn add(
        &mut self,
        model: &[GroupedFile],
        adapter: &mut AdapterFile,
        (number, shard): (usize, usize),
    ) -> Result<Vec<Tensor>> {
        let (mut names, pairs) = (Names::of(model), Pairs::of(&adapter.index)?);
        // Adapters of kohya's scripts are for several components of a model, of which one may be open.
        let mut applied = BTreeSet::new();
        let mut missing: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for (name, pair) in &pairs.updates {
            let (found, component) = names.weight(name, pair.convention)?;
            let Some((at, weight)) = found.and_then(|at| Some((at, names.tensor(at)?))) else {
                missing.entry(component).or_insert((0, name)).0 += 1;
                continue;
            };
            applied.insert(component);
            let update = UpdateParts::of(&weight, (name, pair), adapter, (number, shard));
            let update = update.map_err(|error| error.in_tensor(&weight.name))?;
            self.of_tensors.entry(at).or_default().updates.push(update);
        }
        for (component, (count, first)) in missing {
            if component.is_empty() || applied.contains(component) || applied.is_empty() {
                let what = "the adapter updates a weight that the model does not have";
                let error = Error::new(ErrorKind::NotFound, what).in_tensor(first);
                return Err(error.advise("Give the adapter to the model that it was trained with."));
            }
            let what = format!("{count} updates of `{component}`, of which the model has no weight, are not applied");
            adapter.index.warnings.push(format!("{what}; the first is \"{first}\""));
        }
        self.replace(&names, adapter, &pairs, shard)
    }

    /// Adds the tensors of an adapter that are not parts of updates. Returns those that the model does not have.
    fn replace(
        &mut self,
        names: &Names<'_>,
        adapter: &AdapterFile,
        pairs: &Pairs,
        shard: usize,
    ) -> Result<Vec<Tensor>> {
        let mut added = Vec::new();
        let twice = |name: &str| {
            let error = Error::new(ErrorKind::Unsupported, "two adapters have this tensor").in_tensor(name);
            Err(error.advise("Open the model with one of them."))
        };
        for (name, at) in &pairs.replacements {
            let Some(tensor) = adapter.index.tensors.get(*at).map(Arc::unwrap_or_clone) else { continue };
            match names.replaced(name) {
                Ok(at) => {
                    let change = self.of_tensors.entry(at).or_default();
                    if change.replacement.replace((tensor, shard)).is_some() {
                        return twice(name);
                    }
                }
                Err(name) if !self.added.insert(name.clone()) => return twice(&name),
                Err(name) => added.push(Tensor { name, shard, ..tensor }),
            }
        }
        Ok(added)
    }
}

impl Change {
    /// The tensor in place of the one of the model.
    fn apply(self, tensor: Tensor) -> Result<Tensor> {
        let Change { replacement, updates } = self;
        let Some((new, shard)) = replacement else { return adapted(tensor, updates) };
        if !updates.is_empty() {
            let error = Error::new(ErrorKind::Unsupported, "adapters both update and replace it");
            return Err(error.advise("Open the model with one of them."));
        }
        if new.shape != tensor.shape {
            let shapes = format!("{:?}, but in the model {:?}", new.shape, tensor.shape);
            return Err(malformed(format!("the adapter replaces it by a tensor of the shape {shapes}")));
        }
        adapted(Tensor { name: tensor.name, shard, ..new }, updates)
    }
}
