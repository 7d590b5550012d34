//! Parses the list of weights in a `model.json`.

use super::dtypes::{Stored, stored_as};
use crate::dtype::{MAX_DIMS, element_count};
use crate::error::{Result, malformed};
use crate::format::document;
use crate::index::{
    Component, DataFile, Index, Metadata, Parsed, Part, StatedQuantization, Tensor, check_part_count, part_path,
};
use crate::values::budget::Budget;
use crate::values::json::shown;
use crate::window::{Stop, Window};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The name of the format in the registry.
pub(super) const NAME: &str = "tfjs";

/// The key of the list of weights.
pub(super) const WEIGHTS: &str = "weightsManifest";

/// The key, and the attribute, of weights that belong to the optimizer instead of the model.
pub(super) const GROUP: &str = "group";
pub(super) const OPTIMIZER: &str = "optimizer";

/// Whether a JSON document is a model of TensorFlow.js. Without a list, it has no weights.
pub(crate) fn is_manifest(document: &Map<String, Value>) -> bool {
    document.contains_key(WEIGHTS)
}

/// Reads the whole file, which must be such a document.
pub(super) fn parse_file(window: &Window) -> Result<Parsed, Stop> {
    let (document, mut budget) = document::read(window)?;
    Ok(parse(document, &mut budget)?)
}

pub(super) fn parse(mut document: Map<String, Value>, budget: &mut Budget) -> Result<Parsed> {
    let groups = match document.shift_remove(WEIGHTS) {
        Some(Value::Array(groups)) => groups,
        other => return Err(malformed(format!("`{WEIGHTS}` is {}, not a list", shown(&other.unwrap_or_default())))),
    };
    let mut model = Model::default();
    for group in &groups {
        model.add_group(group, budget)?;
    }
    drop(groups);
    let index = Index {
        format: NAME,
        version: "1".into(), // documents state none
        metadata: document,
        long_arrays: Vec::new(),
        tensors: model.without_bytes.into(),
        warnings: model.texts.into_iter().map(Texts::into_warning).collect(),
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: Some(StatedQuantization::Attributes),
    };
    Ok(Parsed::WithData(index, model.data))
}

#[derive(Default)]
struct Model {
    data: Vec<DataFile>,
    /// Tensors of groups that have no bytes, and need no file.
    without_bytes: Vec<Tensor>,
    paths: HashSet<String>,
    texts: Option<Texts>,
}

/// Weights that are not listed: their number, and the name of the first.
struct Texts {
    count: usize,
    first: String,
}

impl Texts {
    /// `ioHandler` of the npm package finds the warning by its words.
    fn into_warning(self) -> String {
        let Texts { count, first } = self;
        let what = "weights that are texts or follow one, whose length is not stated; the first is";
        format!("not listed: {count} {what} \"{first}\"")
    }
}

impl Model {
    fn add_group(&mut self, group: &Value, budget: &mut Budget) -> Result<()> {
        let list = |key: &str| {
            let list = group.get(key).and_then(Value::as_array).map(Vec::as_slice);
            list.ok_or_else(|| malformed(format!("a group of weights has no list `{key}`")))
        };
        let (paths, weights) = (list("paths")?, list("weights")?);
        let (mut tensors, mut end) = (Vec::new(), 0u64);
        for (at, weight) in weights.iter().enumerate() {
            let name = weight.get("name").and_then(Value::as_str).ok_or_else(|| malformed("a weight has no `name`"))?;
            let Some(tensor) = layout_weight(name, weight, end).map_err(|e| e.in_tensor(name))? else {
                let count = weights.len() - at;
                self.texts.get_or_insert(Texts { count: 0, first: name.to_owned() }).count += count;
                break;
            };
            budget.tensor_with_attributes(&tensor)?;
            end = tensor.components.iter().map(|data| data.range.end).max().unwrap_or(end);
            tensors.push(tensor);
        }
        if end == 0 {
            self.without_bytes.extend(tensors);
            return Ok(());
        }
        if paths.is_empty() {
            return Err(malformed(format!("a group of weights with {end} bytes has no files")));
        }
        let parts = self.parts(paths)?;
        self.data.push(DataFile { parts, tensors });
        Ok(())
    }

    /// The files of a group.
    fn parts(&mut self, paths: &[Value]) -> Result<Vec<Part>> {
        check_part_count((self.paths.len() as u64).saturating_add(paths.len() as u64))?;
        let part = |path: &Value| {
            let path = path.as_str().ok_or_else(|| malformed(format!("`paths` has {}, not a text", shown(path))))?;
            let path = part_path(path)?;
            match self.paths.insert(path.clone()) {
                true => Ok(Part { path, ..Part::default() }),
                false => Err(malformed(format!("the file \"{path}\" is named twice"))),
            }
        };
        paths.iter().map(part).collect()
    }
}

/// The tensor of a weight whose bytes begin at `start`; `None` for texts.
fn layout_weight(name: &str, weight: &Value, start: u64) -> Result<Option<Tensor>> {
    let described = weight.as_object().ok_or_else(|| malformed("it is not an object"))?;
    let (dtype, mut attributes) = match stored_as(described)? {
        Stored::Elements(dtype, attributes) => (dtype, attributes),
        Stored::Texts => return Ok(None),
    };
    if let Some(group) = described.get(GROUP).filter(|group| *group == OPTIMIZER) {
        attributes.insert(GROUP.to_owned(), group.clone());
    }
    let shape = shape_of(described)?;
    let byte_length = dtype.byte_length(element_count(&shape)?)?.unwrap_or(0);
    let end = start.checked_add(byte_length);
    let end = end.ok_or_else(|| malformed("the weights of its group have more than 2^64 bytes"))?;
    let tensor = Tensor::dense(name.to_owned(), dtype.clone(), shape, Component::raw(dtype, start..end));
    Ok(Some(Tensor { attributes, ..tensor }))
}

fn shape_of(weight: &Metadata) -> Result<Vec<u64>> {
    let stated = weight.get("shape").and_then(Value::as_array).filter(|dims| dims.len() <= MAX_DIMS);
    let shape = stated.and_then(|dims| dims.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
    shape.ok_or_else(|| malformed(format!("its `shape` is not a list of at most {MAX_DIMS} sizes")))
}
