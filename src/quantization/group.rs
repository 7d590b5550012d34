//! Groups the tensors of a file into quantized tensors.

use super::config::ModelConfig;
use super::stored::{Part, Position, Stored};
use super::{bitsandbytes, compressed_tensors, float8, gpt_oss, gptq, hqq, mlx, quanto, torchao};
use crate::dtype::{Dtype, MAX_DIMS};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Bytes, Component, Index, Layout, Metadata, PartTensor, Quantized, Scheme, Tensor, Tensors};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The contents of small tensors that state how others are quantized, by name.
pub(crate) type Contents = HashMap<String, Vec<u8>>;

/// The tensors whose contents are needed, by the endings of their names.
const CONTENTS: [&str; 7] = [
    ".quant_state.bitsandbytes__nf4",
    ".quant_state.bitsandbytes__fp4",
    ".weight_shape",
    ".nbits",
    ".axis",
    ".shape",
    ".packing",
];

/// The maximum size of such a tensor. That of bitsandbytes is a JSON object of about 200 bytes.
const MAX_CONTENT_BYTES: u64 = 4 << 10;

/// The maximum number of elements of a tensor, so that the number of bits of all codes and scales fits in a u64.
const MAX_ELEMENTS: u64 = 1 << 56;

/// Recognizes the tensor of a part, whose name is given without its ending.
type Detect = fn(&Stored<'_>, &str) -> Option<Group>;

/// The endings of names, each with the method that has such a part. The first that matches decides.
const METHODS: [(&str, Detect); 11] = [
    (".scales", mlx::detect),
    (".qweight", gptq::detect),
    (".absmax", bitsandbytes::detect_4_bit),
    (".SCB", bitsandbytes::detect_8_bit),
    ("_scale_inv", float8::detect_blocks),
    ("._weight_scale", torchao::detect),
    ("._scale", quanto::detect),
    (".scale_weight", float8::detect_comfy),
    ("_scale", compressed_tensors::detect),
    ("_blocks", gpt_oss::detect),
    (".W_q", hqq::detect),
];

/// A quantized tensor and its parts.
pub(super) struct Group {
    pub(super) name: String,
    /// The dtype of its values.
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<u64>,
    /// The positions of its parts in the index, with their roles.
    pub(super) parts: Vec<(&'static str, Position)>,
    pub(super) scheme: Arc<dyn Scheme>,
    /// What the attribute `quantization` has.
    pub(super) described: Metadata,
}

/// The files of a model after grouping.
pub(crate) struct Grouping {
    /// Each file with one tensor for each group.
    pub(crate) files: Vec<GroupedFile>,
    /// Whether `config.json` is needed: a tensor is ambiguous.
    pub(crate) is_ambiguous: bool,
}

/// A file after grouping.
pub(crate) struct GroupedFile {
    pub(crate) index: Index,
    /// The parts of groups in the file. They can still be found by name.
    pub(crate) parts: Vec<Tensor>,
}

/// The ranges of the small tensors whose contents [`group`] needs: their names, files and ranges.
pub(crate) fn contents_to_read(files: &[Index]) -> Vec<(String, usize, Range<u64>)> {
    let stored = Stored { files, config: None, contents: &Contents::new() };
    let is_wanted = |part: &Part<'_>| {
        CONTENTS.iter().any(|ending| part.name.ends_with(ending)) && part.byte_length() <= MAX_CONTENT_BYTES
    };
    let parts = stored.positions().filter_map(|at| stored.at(at)).filter(is_wanted);
    parts.map(|part| (part.name.to_owned(), part.at.0, part.range)).collect()
}

/// Groups the tensors of all files of a model. Those that no method recognizes stay as they are.
pub(crate) fn group(files: &[Index], config: Option<&ModelConfig>, contents: &Contents) -> Grouping {
    let config = config.and_then(|config| config.stated().ok());
    let groups = find_groups(&Stored { files, config: config.as_ref(), contents });
    let is_ambiguous = groups.iter().any(|group| group.scheme.check().is_err());
    let mut grouped: HashMap<Position, Tensor> = HashMap::new();
    let mut taken = HashSet::new();
    for group in groups {
        taken.extend(group.parts.iter().map(|(_, at)| *at));
        if let (Some((_, first)), Some(tensor)) = (group.parts.first().copied(), group.tensor(files)) {
            grouped.insert(first, tensor);
        }
    }
    let of_file = |(shard, index): (usize, &Index)| {
        let (mut tensors, mut parts) = (Tensors::default(), Vec::new());
        for at in 0..index.tensors.len() {
            grouped.remove(&(shard, at)).into_iter().for_each(|tensor| tensors.push(tensor));
            let Some(tensor) = index.tensors.get(at).map(Arc::unwrap_or_clone) else { continue };
            if taken.contains(&(shard, at)) { parts.push(tensor) } else { tensors.push(tensor) }
        }
        tensors.sort();
        tensors.set_shard(shard);
        tensors.index_names();
        GroupedFile { index: index.with_tensors(tensors), parts }
    };
    Grouping { files: files.iter().enumerate().map(of_file).collect(), is_ambiguous }
}

/// The groups whose parts and names are their own.
fn find_groups(stored: &Stored<'_>) -> Vec<Group> {
    let (mut groups, mut taken, mut names) = (Vec::new(), HashSet::new(), HashSet::new());
    for name in stored.files.iter().flat_map(|index| index.tensors.names()) {
        let detected = METHODS.iter().find_map(|(ending, detect)| detect(stored, name.strip_suffix(ending)?));
        let Some(group) = detected else { continue };
        let has_free_name = match stored.position(&group.name) {
            Some(at) => group.parts.iter().any(|(_, part)| *part == at),
            None => true,
        };
        let has_free_parts = group.parts.iter().all(|(_, at)| !taken.contains(at));
        if has_free_name && has_free_parts && is_countable(&group.shape) && names.insert(group.name.clone()) {
            taken.extend(group.parts.iter().map(|(_, at)| *at));
            groups.push(group);
        }
    }
    groups
}

/// Whether sizes in bits can be computed of a tensor of this shape, also if a dimension is 0.
fn is_countable(shape: &[u64]) -> bool {
    let count = shape.iter().try_fold(1_u64, |product, dim| product.checked_mul((*dim).max(1)));
    shape.len() <= MAX_DIMS && count.is_some_and(|count| count <= MAX_ELEMENTS)
}

impl Group {
    /// A tensor whose parts are recognized, but whose values cannot be computed. It has the dtype and shape of `codes`.
    pub(super) fn ambiguous(
        name: String,
        codes: &Part<'_>,
        parts: Vec<(&'static str, Position)>,
        method: &str,
        reason: Ambiguous,
    ) -> Group {
        let described = Metadata::from_iter([("method".to_owned(), Value::from(method))]);
        let (dtype, shape) = (codes.dtype.clone(), codes.shape.to_vec());
        Group { name, dtype, shape, parts, scheme: Arc::new(reason), described }
    }

    /// The tensor in the file of its first part.
    fn tensor(self, files: &[Index]) -> Option<Tensor> {
        let Group { name, dtype, shape, parts, scheme, described } = self;
        let own = parts.first()?.1.0;
        let (mut components, mut part_tensors) = (Vec::new(), Vec::new());
        for (role, (file, at)) in parts {
            let part = Arc::unwrap_or_clone(files.get(file)?.tensors.get(at)?);
            let [data] = part.components.as_slice() else { return None };
            let shard = Some(file).filter(|file| *file != own);
            components.push(Component { role: role.into(), shard, ..data.clone() });
            part_tensors.push(PartTensor { name: part.name, shape: part.shape });
        }
        let layout = Layout::Quantized(Arc::new(Quantized { parts: part_tensors, scheme }));
        let attributes = Metadata::from_iter([("quantization".to_owned(), Value::Object(described))]);
        Some(Tensor { name, dtype, shape, layout, components, attributes, shard: own })
    }
}

/// What a JSON object of a method has.
pub(super) fn described(object: Value) -> Metadata {
    if let Value::Object(described) = object { described } else { Metadata::new() }
}

/// Why the values of a tensor cannot be computed.
#[derive(Debug, Clone)]
pub(super) struct Ambiguous {
    pub(super) what: String,
    pub(super) advice: &'static str,
}

/// What to do about a tensor that `config.json` would make clear.
pub(super) const GIVE_CONFIG: &str = "Give the model's `config.json`: beside the file, or as the option `config`. Without a conversion, its parts load \
     as they are stored.";

/// What to do about a layout that is not supported.
pub(super) const LOAD_PARTS: &str = "Load its parts without a conversion.";

impl Scheme for Ambiguous {
    fn check(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, self.what.clone()).advise(self.advice))
    }

    fn needs(&self, _rows: &Range<u64>) -> Vec<Bytes> {
        Vec::new()
    }

    fn decode(&self, _rows: &Range<u64>, _parts: &[&[u8]], _to: &Dtype, _out: &mut [f32]) {}
}
