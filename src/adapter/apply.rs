//! Replaces the weights that adapters update by adapted tensors.

use super::Adapter;
use super::pairs::{Convention, Pair, Pairs, candidates, kohya_path, with_underscores};
use super::scheme::{Adapted, Factor, Update, Weight};
use crate::codec::dequantize::decoder_of;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Component, Encoding, Index, Layout, PartTensor, Quantized, Tensor, Tensors, matrix_of};
use crate::quantization::{Contents, GroupedFile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The file of an adapter.
#[derive(Debug)]
pub(crate) struct AdapterFile {
    pub(crate) index: Index,
    pub(crate) settings: Adapter,
    /// The contents of the tensors that [`contents_to_read`] lists.
    pub(crate) contents: Contents,
}

impl AdapterFile {
    /// Whether the adapter cannot be applied without its `adapter_config.json`, which was not given.
    ///
    /// # Errors
    /// `UNSUPPORTED` and `FORMAT` for a file that is no adapter, or another kind of one.
    pub(crate) fn needs_config(&self) -> Result<bool> {
        Ok(self.settings.config.is_none() && Pairs::of(&self.index)?.need_config())
    }
}

/// The maximum size of a scalar. They have up to 8 bytes.
const MAX_SCALAR_BYTES: u64 = 64;

/// The ranges of the scalars of an adapter, with their names.
pub(crate) fn contents_to_read(index: &Index) -> Vec<(String, Range<u64>)> {
    let scalars = index.tensors.names().enumerate().filter(|(_, name)| name.ends_with(".alpha"));
    let ranges = scalars.map(|(at, name)| (name.to_owned(), index.tensors.range(at)));
    ranges.filter(|(_, range)| range.end - range.start <= MAX_SCALAR_BYTES).collect()
}

/// Replaces the tensors of a model that adapters update. The files of the adapters follow those of the model.
///
/// # Errors
/// `NOT_FOUND` for an update of a weight that the model does not have; `FORMAT` if shapes do not match; `UNSUPPORTED`
/// for weights and adapters that cannot be added. Errors do not name the file of the adapter.
pub(crate) fn apply(mut files: Vec<GroupedFile>, adapters: Vec<AdapterFile>) -> Result<Vec<GroupedFile>> {
    let model_files = files.len();
    let mut changes: BTreeMap<(usize, usize), Change> = BTreeMap::new();
    for (number, adapter) in adapters.into_iter().enumerate() {
        let shard = model_files + number;
        let names = Names::of(files.get(..model_files).unwrap_or_default());
        let extra = find_changes(&names, &adapter, number, shard, &mut changes)?;
        let AdapterFile { mut index, .. } = adapter;
        let parts = index.tensors.to_vec().into_iter().map(|part| Tensor { shard, ..part }).collect();
        index.tensors = Tensors::from(extra);
        index.tensors.set_shard(shard);
        index.tensors.index_names();
        files.push(GroupedFile { index, parts });
    }
    for (shard, file) in files.iter_mut().enumerate().take(model_files) {
        let count = file.index.tensors.len();
        if changes.range((shard, 0)..(shard, count)).next().is_none() {
            continue;
        }
        let mut tensors = Vec::with_capacity(count);
        for (at, tensor) in file.index.tensors.iter().enumerate() {
            let tensor = Tensor { shard, ..Arc::unwrap_or_clone(tensor) };
            tensors.push(match changes.remove(&(shard, at)) {
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
    updates: Vec<NamedUpdate>,
}

/// An update whose factors are tensors of an adapter.
struct NamedUpdate {
    /// The number of the adapter, and of its file.
    adapter: usize,
    shard: usize,
    down: Tensor,
    up: Tensor,
    magnitude: Option<Tensor>,
    scale: f32,
    /// How `down` and `up` are multiplied, and with which rank.
    orientation: Orientation,
    rank: u64,
}

/// How the factors make up the rows of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Orientation {
    /// `up · down`.
    Plain,
    /// `(up · down)ᵀ`: the weight is stored with its inputs as rows.
    Transposed,
    /// `down · upᵀ`: embeddings in GGUF.
    Embedding,
}

/// The names of the tensors of a model, with their places.
struct Names<'a> {
    files: &'a [GroupedFile],
    by_path: HashMap<String, Vec<(usize, usize)>>,
}

impl<'a> Names<'a> {
    fn of(files: &'a [GroupedFile]) -> Self {
        Names { files, by_path: HashMap::new() }
    }

    fn find(&self, name: &str) -> Option<(usize, usize)> {
        let find = |(shard, file): (usize, &GroupedFile)| Some((shard, file.index.tensors.position(name)?));
        self.files.iter().enumerate().find_map(find)
    }

    fn first_of(&self, paths: &[String], ending: &str) -> Option<(usize, usize)> {
        paths.iter().find_map(|path| self.find(&format!("{path}{ending}")))
    }

    /// The weight whose path with underscores is this one.
    ///
    /// # Errors
    /// `UNSUPPORTED` if several weights have this path.
    fn find_with_underscores(&mut self, path: &str) -> Result<Option<(usize, usize)>> {
        if self.by_path.is_empty() {
            for (shard, file) in self.files.iter().enumerate() {
                for (at, name) in file.index.tensors.names().enumerate() {
                    for path in with_underscores(name).into_iter().flatten() {
                        self.by_path.entry(path).or_default().push((shard, at));
                    }
                }
            }
        }
        match self.by_path.get(path).map(Vec::as_slice) {
            None => Ok(None),
            Some([only]) => Ok(Some(*only)),
            Some(_) => Err(Error::new(ErrorKind::Unsupported, "several weights of the model have this path")
                .in_tensor(path)
                .advise("Convert the adapter to the format of PEFT.")),
        }
    }

    fn tensor(&self, (shard, at): (usize, usize)) -> Option<Arc<Tensor>> {
        self.files.get(shard)?.index.tensors.get(at)
    }
}

/// Adds what an adapter changes. Returns its tensors that the model does not have.
fn find_changes(
    names: &Names<'_>,
    adapter: &AdapterFile,
    number: usize,
    shard: usize,
    changes: &mut BTreeMap<(usize, usize), Change>,
) -> Result<Vec<Tensor>> {
    let mut names = Names::of(names.files);
    let pairs = Pairs::of(&adapter.index)?;
    if pairs.need_config() && adapter.settings.config.is_none() {
        let what = "the adapter's `adapter_config.json` is missing, which states how its updates are scaled";
        let error = Error::new(ErrorKind::NotFound, what);
        return Err(error.advise("Put it beside the adapter, or give it as `config` of the adapter."));
    }
    let gguf_alpha = adapter.index.metadata.get("adapter.lora.alpha").and_then(Value::as_f64);
    // Adapters of kohya's scripts are for several models, of which one may be open.
    let (mut applied, mut missing) = (BTreeSet::new(), BTreeMap::new());
    for (base, pair) in &pairs.updates {
        let (found, group) = match pair.convention {
            Convention::Gguf => (names.find(base), ""),
            Convention::Kohya => {
                let (prefix, path) = kohya_path(base);
                (names.find_with_underscores(path)?, prefix)
            }
            Convention::Peft | Convention::PeftEmbedding => {
                let paths = candidates(base);
                (names.first_of(&paths, ".weight").or_else(|| names.first_of(&paths, "")), "")
            }
        };
        match found {
            Some(at) => {
                applied.insert(group);
                let weight = names.tensor(at).ok_or_else(|| malformed("a tensor is missing"))?;
                let update = NamedUpdate::of(&weight, (base, pair), adapter, gguf_alpha, (number, shard));
                changes.entry(at).or_default().updates.push(update.map_err(|error| error.in_tensor(base))?);
            }
            None => {
                missing.entry(group).or_insert(base);
            }
        }
    }
    if let Some((_, base)) = missing.iter().find(|(group, _)| group.is_empty() || applied.contains(**group)) {
        return Err(unmatched(base));
    }
    if let (true, Some(base)) = (applied.is_empty(), missing.values().next()) {
        return Err(unmatched(base));
    }
    let mut extra = Vec::new();
    for (name, at) in pairs.replacements {
        let Some(tensor) = adapter.index.tensors.get(at).map(Arc::unwrap_or_clone) else { continue };
        let paths = candidates(&name);
        match names.first_of(&paths, "") {
            Some(at) => changes.entry(at).or_default().replacement = Some((tensor, shard)),
            None => extra.push(Tensor { name: paths.into_iter().next().unwrap_or(name), shard, ..tensor }),
        }
    }
    Ok(extra)
}

fn unmatched(base: &str) -> Error {
    let error = Error::new(ErrorKind::NotFound, "the adapter updates a weight that the model does not have");
    error.in_tensor(base).advise("Give the adapter to the model that it was trained with.")
}

impl NamedUpdate {
    fn of(
        weight: &Tensor,
        (base, pair): (&str, &Pair),
        adapter: &AdapterFile,
        gguf_alpha: Option<f64>,
        (number, shard): (usize, usize),
    ) -> Result<Self> {
        let tensor = |at: Option<usize>| at.and_then(|at| adapter.index.tensors.get(at)).map(Arc::unwrap_or_clone);
        let (Some(down), Some(up)) = (tensor(pair.down), tensor(pair.up)) else {
            return Err(malformed("a factor is missing"));
        };
        let config = adapter.settings.config.as_ref();
        let prefers_transposed =
            pair.convention == Convention::PeftEmbedding || config.is_some_and(|config| config.has_inputs_as_rows);
        let (orientation, rank) = orientation(weight, &down, &up, pair.convention, prefers_transposed)?;
        let own_alpha = pair.alpha.and_then(|at| scalar(adapter, at)).or(gguf_alpha.filter(|alpha| *alpha != 0.0));
        let scaling = match (own_alpha, config) {
            (Some(alpha), _) => alpha / rank as f64,
            (None, Some(config)) if pair.convention != Convention::Gguf => {
                config.scaling(base.strip_prefix("base_model.model.").unwrap_or(base), rank)
            }
            _ => 1.0,
        };
        let magnitude = tensor(pair.magnitude);
        let rows = weight.shape.first().copied().unwrap_or(1);
        if let Some(magnitude) = &magnitude
            && (element_count(&magnitude.shape)? != rows || orientation != Orientation::Plain)
        {
            let error = Error::new(ErrorKind::Unsupported, "the norms of the adapter (DoRA) are not those of rows");
            return Err(error.advise("Merge the adapter with PEFT, and load the result."));
        }
        for factor in [Some(&down), Some(&up), magnitude.as_ref()].into_iter().flatten() {
            check_factor(factor)?;
        }
        let scale = (scaling * f64::from(adapter.settings.scale)) as f32;
        Ok(NamedUpdate { adapter: number, shard, down, up, magnitude, scale, orientation, rank })
    }
}

/// How the factors are multiplied so that they have the shape of the weight, and their rank.
fn orientation(
    weight: &Tensor,
    down: &Tensor,
    up: &Tensor,
    convention: Convention,
    prefers_transposed: bool,
) -> Result<(Orientation, u64)> {
    let as_matrix = |tensor: &Tensor| -> Result<[u64; 2]> {
        let (rows, rest) = tensor.shape.split_first().map_or((1, [].as_slice()), |(rows, rest)| (*rows, rest));
        Ok([rows, element_count(rest)?])
    };
    let ([rows, columns], down_matrix, up_matrix) = (as_matrix(weight)?, as_matrix(down)?, as_matrix(up)?);
    let fits = |orientation: Orientation| {
        let ([rank, inner], [outer, of_up]) = (down_matrix, up_matrix);
        match orientation {
            Orientation::Plain => rank == of_up && [outer, inner] == [rows, columns],
            Orientation::Transposed => rank == of_up && [inner, outer] == [rows, columns],
            Orientation::Embedding => inner == of_up && [rank, outer] == [rows, columns],
        }
    };
    let order = match prefers_transposed {
        true => [Orientation::Transposed, Orientation::Plain],
        false => [Orientation::Plain, Orientation::Transposed],
    };
    let embedding = (convention == Convention::Gguf).then_some(Orientation::Embedding);
    let orientation = order.into_iter().chain(embedding).find(|orientation| fits(*orientation));
    let orientation = orientation.ok_or_else(|| {
        let shapes = format!("{:?} and {:?}, but the weight has the shape {:?}", up.shape, down.shape, weight.shape);
        let error = malformed(format!("the factors of the adapter have the shapes {shapes}"));
        error.advise("Give the adapter to the model that it was trained with.")
    })?;
    let rank = if orientation == Orientation::Embedding { down_matrix[1] } else { down_matrix[0] };
    if rank == 0 {
        return Err(malformed("the rank of the adapter is 0"));
    }
    Ok((orientation, rank))
}

/// Checks that a tensor of an adapter has floats that can be read by ranges.
fn check_factor(tensor: &Tensor) -> Result<()> {
    let is_raw = matches!(tensor.components.as_slice(), [data] if data.encoding == Encoding::Raw);
    match tensor.layout == Layout::Dense && is_raw && is_float(&tensor.dtype) {
        true => Ok(()),
        false => {
            let what = format!("the factor \"{}\" is not stored as F32, F16 or BF16", tensor.name);
            Err(Error::new(ErrorKind::Unsupported, what).advise("Convert the adapter to F32."))
        }
    }
}

const fn is_float(dtype: &Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

/// The value of a scalar of an adapter.
fn scalar(adapter: &AdapterFile, at: usize) -> Option<f64> {
    let bytes = adapter.contents.get(adapter.index.tensors.name(at))?;
    let tensor = adapter.index.tensors.get(at)?;
    let integer = |bytes: &[u8]| bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes) as f64);
    match &tensor.dtype {
        Dtype::I64 => integer(bytes),
        Dtype::F64 => bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)),
        dtype if is_float(dtype) => {
            let mut value = [0.0];
            (decoder_of(dtype)?.decode)(bytes, &mut value);
            value.first().map(|value| f64::from(*value))
        }
        _ => None,
    }
}

impl Change {
    /// The tensor in place of the one of the model.
    fn apply(self, tensor: Tensor) -> Result<Tensor> {
        let Change { replacement, updates } = self;
        let base = match replacement {
            Some((new, shard)) if updates.is_empty() && new.shape == tensor.shape => {
                Tensor { name: tensor.name, shard, ..new }
            }
            Some(_) => return Err(malformed("the adapter replaces this tensor by one of another shape, or twice")),
            None => tensor,
        };
        adapted(base, updates)
    }
}

/// A tensor whose rows are computed from the weight and the factors.
fn adapted(weight: Tensor, updates: Vec<NamedUpdate>) -> Result<Tensor> {
    let [_, columns] = matrix_of(&weight.shape)?;
    let row_elements = element_count(weight.shape.get(1..).unwrap_or_default())?;
    let rows = weight.shape.first().copied().unwrap_or(1);
    let (mut components, mut parts, stored) = parts_of(&weight, columns)?;
    let weight_parts = components.len();
    let (mut described, mut computed) = (Vec::new(), Vec::new());
    for NamedUpdate { adapter, shard, down, up, magnitude, scale, orientation, rank } in updates {
        let mut add = |role: &str, tensor: Tensor| {
            let part = components.len();
            let data = tensor.components.into_iter().next();
            components.extend(data.map(|data| Component { role: format!("adapter{adapter}.{role}").into(), ..data }));
            parts.push(PartTensor { name: tensor.name, shape: tensor.shape, shard });
            (part, tensor.dtype)
        };
        let (down, up) = (add("lora_a", down), add("lora_b", up));
        let factor = |(part, dtype): (usize, Dtype), [rows, columns]: [u64; 2], is_transposed: bool| Factor {
            part,
            dtype,
            rows,
            columns,
            is_transposed,
        };
        let (of_left, of_right) = ([rows, rank], [rank, row_elements]);
        let (left, right) = match orientation {
            Orientation::Plain => (factor(up, of_left, false), factor(down, of_right, false)),
            Orientation::Transposed => (factor(down, of_left, true), factor(up, of_right, true)),
            Orientation::Embedding => (factor(down, of_left, false), factor(up, of_right, true)),
        };
        described.push(json!({ "rank": rank, "scale": scale, "dora": magnitude.is_some() }));
        let magnitude = magnitude.map(|magnitude| add("magnitude", magnitude));
        computed.push(Update { left, right, rank, scale, magnitude });
    }
    let dtype = if is_float(&weight.dtype) { weight.dtype.clone() } else { Dtype::F32 };
    let mut attributes = weight.attributes.clone();
    attributes.insert("adapters".to_owned(), Value::Array(described));
    let scheme = Adapted { weight: stored, weight_parts, columns, row_elements, updates: computed };
    let layout = Layout::Quantized(Arc::new(Quantized { parts, scheme: Arc::new(scheme) }));
    Ok(Tensor { dtype, components, layout, attributes, ..weight })
}

/// The components of a weight as parts, and how its values are computed from them.
fn parts_of(weight: &Tensor, columns: u64) -> Result<(Vec<Component>, Vec<PartTensor>, Weight)> {
    if let Some(quantized) = weight.quantized() {
        let scheme = Weight::Quantized(Arc::clone(&quantized.scheme));
        return Ok((weight.components.clone(), quantized.parts.clone(), scheme));
    }
    let unsupported = |what: String| {
        let error = Error::new(ErrorKind::Unsupported, format!("an adapter cannot be added to it: {what}"));
        Err(error.advise("Merge the adapter with the program that made it, and load the result."))
    };
    let (Layout::Dense, [_]) = (&weight.layout, weight.components.as_slice()) else {
        return unsupported(format!("its layout is {}", weight.layout.name()));
    };
    let Some(decoder) = decoder_of(&weight.dtype).filter(|decoder| decoder.scale_bytes == 0) else {
        return unsupported(format!("its dtype {} has no floats that can be read by rows", weight.dtype));
    };
    if !columns.is_multiple_of(decoder.elements as u64) {
        return unsupported(format!("its rows do not fill blocks of {}", weight.dtype));
    }
    let part = PartTensor { name: weight.name.clone(), shape: weight.shape.clone(), shard: weight.shard };
    Ok((weight.components.clone(), vec![part], Weight::Elements(weight.dtype.clone())))
}
