//! Groups the tensors of a file into quantized tensors.

use super::config::ModelConfig;
use super::found::Group;
#[cfg(feature = "onnx")]
use super::onnx;
use super::stored::{Contents, Part, Position, Stored};
use super::{affine, bitsandbytes, compressed_tensors, float8, gpt_oss, gptq, hqq, mlx, quanto, torchao};
use crate::dtype::MAX_DIMS;
use crate::index::{Index, StatedQuantization, Tensor, Tensors};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

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
    let is_named = |part: &Part<'_>| CONTENTS.iter().any(|ending| part.name.ends_with(ending));
    let named = stored.positions().filter_map(|at| stored.at(at)).filter(is_named);
    #[cfg(feature = "onnx")]
    let named = named.chain(onnx::contents(&stored));
    let parts = named.filter(|part| part.byte_length() <= MAX_CONTENT_BYTES);
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
    for group in detect_groups(stored) {
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

/// The groups that the files state, or else those that their names suggest.
fn detect_groups<'a>(stored: &'a Stored<'a>) -> Box<dyn Iterator<Item = Group> + 'a> {
    match stored.stated() {
        #[cfg(feature = "onnx")]
        Some(StatedQuantization::Nodes(nodes)) => Box::new(nodes.iter().filter_map(|node| onnx::detect(stored, node))),
        Some(StatedQuantization::Attributes) => {
            Box::new(stored.positions().filter_map(|at| affine::detect(stored.other(at)?, at)))
        }
        None => {
            let names = stored.files.iter().flat_map(|index| index.tensors.names());
            Box::new(names.filter_map(|name| {
                METHODS.iter().find_map(|(ending, detect)| detect(stored, name.strip_suffix(ending)?))
            }))
        }
    }
}

/// Whether sizes in bits can be computed of a tensor of this shape, also if a dimension is 0.
fn is_countable(shape: &[u64]) -> bool {
    let count = shape.iter().try_fold(1_u64, |product, dim| product.checked_mul((*dim).max(1)));
    shape.len() <= MAX_DIMS && count.is_some_and(|count| count <= MAX_ELEMENTS)
}
