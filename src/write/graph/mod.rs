//! Splits an ONNX model into its graph and its weights.
//!
//! The graph refers to the weights as external data in `model.safetensors`: the SafeTensors file as which a loader
//! presents weights of any format. Initializers of less than [`MIN_BYTES`] stay in the graph.

use super::companion::Companion;
use super::conversion::{in_dtype, stored_tensors};
use super::files::convert_to;
use super::order::TensorOrder;
use super::source::Source;
use super::{ConvertOptions, Converted, Extent, Input, cast};
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::format::onnx::parts;
use crate::format::onnx::rewrite::{self, InitializerStorage};
use crate::format::safetensors::layout;
use crate::index::{Component, Metadata, Tensor};
use crate::loader::ModelMetadata;
use crate::output::created_folders::CreatedFolders;
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::target::Target;
use crate::progress::Progress;
use crate::window::{Stop, Window};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Initializers of fewer bytes stay in the graph. The Python package `onnx` has the same default: runtimes need the
/// values of small ones, such as shapes, before they load weights.
const MIN_BYTES: u64 = 1024;

/// The name of the weights in the graph.
const LOCATION: &str = "model.safetensors";

/// The first version of the operators that casts from BF16.
const BF16_OPSET: u64 = 13;

/// Whether `out` is a folder, to which the graph is written too.
pub(super) fn is_split(input: &dyn Input, out: &Path) -> bool {
    let ends_with_separator = out.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
    input.metadata().format == "onnx" && (ends_with_separator || out.is_dir())
}

/// Writes the graph and the weights of `input` to a folder.
pub(super) fn convert(
    input: &dyn Input,
    folder: &Path,
    options: &ConvertOptions,
    progress: &(dyn Progress + Sync),
) -> Result<Converted> {
    let format = options.format.map_or_else(|| super::format_named("apr"), Ok)?;
    check_options(options, format, input)?;
    let mut options = options.clone().format(format);
    let inputs = parsed(input, &rewrite::input_names)?;
    let weights = Weights::of(input, format, &options)?;
    if options.by_layer {
        let mut order = parsed(input, &parts::order_of_use)?;
        order.retain(|name| weights.sources.contains_key(name));
        options = options.order(TensorOrder::Names(order));
    }
    let path = folder.join("model.onnx");
    let (by_layer, obstacle) = (options.by_layer, RefCell::default());
    let graph = Graph { input, path, inputs, weights: &weights, by_layer, obstacle };
    let mut created = CreatedFolders::default();
    created.create(folder)?;
    let out = folder.join(format!("model{}", format.extensions.first().copied().unwrap_or_default()));
    let converted = convert_to(&weights, &out, &options, progress, Some(&graph))?;
    Ok(Converted { warnings: graph.warnings(&options, converted.warnings), ..converted })
}

/// Calls `read` with the bytes of the graph, until it has all that it needs.
fn parsed<T: Default>(input: &dyn Input, read: &dyn Fn(&Window) -> Result<T, Stop>) -> Result<T> {
    let found = RefCell::new(T::default());
    input.parse_first(&|window| {
        *found.borrow_mut() = read(window)?;
        Ok(())
    })?;
    Ok(found.into_inner())
}

fn check_options(options: &ConvertOptions, format: &Format, input: &dyn Input) -> Result<()> {
    let refuse = |what: &str, advice: &str| Err(Error::new(ErrorKind::InvalidArgument, what).advise(advice));
    match &options.dtype {
        Some(dtype @ (Dtype::Q8_0 | Dtype::Q4_0)) => {
            return refuse(&format!("ONNX has no type for {dtype}"), "Choose F16 or BF16.");
        }
        Some(Dtype::BF16) if opset(input) < BF16_OPSET => {
            return refuse("the operators of this graph are older than casts from BF16", "Choose F16.");
        }
        _ => {}
    }
    if options.by_layer && options.order.is_for_streaming() {
        let what = "the order of the nodes is that of the tensors";
        return refuse(what, "Leave out either `ConvertOptions::order` or `ConvertOptions::by_layer`.");
    }
    if format.name == "safetensors" && !(options.metadata.is_empty() && options.alignment.is_none_or(|it| it == 8)) {
        let what = "metadata and another alignment would move the tensors that the graph refers to";
        return refuse(
            what,
            "Leave `ConvertOptions::metadata` and `ConvertOptions::alignment` out, or choose another format.",
        );
    }
    Ok(())
}

/// The version of the default operators.
fn opset(input: &dyn Input) -> u64 {
    let opsets = input.metadata().metadata.get("opset_import");
    opsets.and_then(|opsets| opsets.get("").or(opsets.get("ai.onnx"))?.as_u64()).unwrap_or(u64::MAX)
}

/// The initializers that leave the graph.
struct Weights<'a> {
    input: &'a dyn Input,
    metadata: ModelMetadata,
    /// As they are written, except casts. The largest elements come first, so that all are aligned, unless the order is
    /// that of the nodes.
    tensors: Vec<Tensor>,
    sources: HashMap<String, Tensor>,
}

impl<'a> Weights<'a> {
    fn of(input: &'a dyn Input, format: &'static Format, options: &ConvertOptions) -> Result<Self> {
        let (_, writer) = options.writer(Path::new(""))?;
        let source = Source::unchanged(input);
        let settings = options.settings(format, writer, input, &source)?;
        let target = (writer.new)(&settings, &mut Losses::new(options.allow_loss))?;
        // The graph has the parts of quantized tensors.
        let mut large = stored_tensors(input)?;
        large.retain(|tensor| tensor.byte_length() >= Some(MIN_BYTES));
        let stored = large.iter().map(|tensor| storable(tensor, &*target, options));
        let mut tensors = stored.collect::<Result<Vec<_>>>()?;
        tensors.sort_by_key(|tensor| Reverse(tensor.dtype.array_kind().element_bytes()));
        // A SafeTensors file is what the graph refers to, and has no metadata.
        let ModelMetadata { format: source, version, metadata } = input.metadata();
        let metadata = if format.name == "safetensors" { Metadata::new() } else { metadata.clone() };
        let metadata = ModelMetadata::new(source, version.clone(), metadata);
        let sources = large.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        Ok(Weights { input, metadata, tensors, sources })
    }
}

/// Returns the tensor, or its bytes as U8 if the format or SafeTensors, to which the weights can then be converted,
/// cannot store its dtype.
fn storable(tensor: &Tensor, target: &dyn Target, options: &ConvertOptions) -> Result<Tensor> {
    let wanted = match options.dtype.as_ref().and_then(|dtype| target_dtype(tensor, dtype)) {
        Some(dtype) => in_dtype(tensor, dtype).map_err(|e| e.in_tensor(&tensor.name))?,
        None => tensor.clone(),
    };
    if layout::has_dtype(&wanted.dtype) && target.check(&wanted, &mut Losses::default()).is_ok() {
        return Ok(tensor.clone());
    }
    let decoded_length = tensor.byte_length();
    let as_bytes = |component: &Component| Component { dtype: Dtype::U8, decoded_length, ..component.clone() };
    let components = tensor.components.iter().map(as_bytes).collect();
    let shape = decoded_length.into_iter().collect();
    Ok(Tensor { dtype: Dtype::U8, shape, components, ..tensor.clone() })
}

impl Input for Weights<'_> {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let source = self.sources.get(tensor.name.as_str()).unwrap_or(tensor);
        self.input.read_pieces(source, role, emit)
    }

    fn paths(&self) -> Vec<&Path> {
        self.input.paths()
    }

    fn compare_files(&self, extent: Extent, progress: &(dyn Progress + Sync)) -> Result<Vec<String>> {
        self.input.compare_files(extent, progress)
    }
}

/// The graph, which is written before the weights: it is small, and has more reasons to fail.
struct Graph<'a> {
    input: &'a dyn Input,
    path: PathBuf,
    /// The names of the graph's inputs. Initializers with such a name keep their type, which callers may know.
    inputs: HashSet<String>,
    weights: &'a Weights<'a>,
    /// Whether its parts are marked.
    by_layer: bool,
    /// Why it has only one part.
    obstacle: RefCell<Option<String>>,
}

impl Graph<'_> {
    fn warnings(&self, options: &ConvertOptions, mut warnings: Vec<String>) -> Vec<String> {
        warnings.extend(self.obstacle.borrow().clone());
        let Some(dtype) = &options.dtype else { return warnings };
        let is_kept = |tensor: &&Tensor| self.inputs.contains(&tensor.name) && target_dtype(tensor, dtype).is_some();
        let mut kept = self.weights.tensors.iter().filter(is_kept);
        if let Some(first) = kept.next() {
            let (count, name) = (1 + kept.count(), &first.name);
            warnings.push(format!(
                "not cast to {dtype}: {count} initializers that are also inputs of the graph; the first is \"{name}\""
            ));
        }
        warnings
    }

    /// Returns the new places of all initializers that change.
    fn places(&self, written: &[&Tensor]) -> Result<HashMap<String, InitializerStorage>> {
        let mut places = HashMap::new();
        let tensors = || written.iter().copied();
        let head = layout::head(tensors(), &Metadata::new(), layout::ALIGNMENT)?;
        for (tensor, bytes) in tensors().zip(layout::ranges(head.len() as u64, tensors())?) {
            let source = self.weights.sources.get(tensor.name.as_str());
            let is_cast = source.is_some_and(|source| is_float(&source.dtype) && source.dtype != tensor.dtype);
            let cast = data_type_of(&tensor.dtype).filter(|_| is_cast);
            let cast = cast.map(|data_type| (data_type, format!(":{}", tensor.dtype)));
            places.insert(tensor.name.clone(), InitializerStorage::External { location: LOCATION, bytes, cast });
        }
        for tensor in stored_tensors(self.input)?.into_iter().filter(|tensor| tensor.shard > 0) {
            if let Entry::Vacant(place) = places.entry(tensor.name.clone()) {
                place.insert(InitializerStorage::Inline(read(self.input, &tensor)?));
            }
        }
        Ok(places)
    }
}

impl Graph<'_> {
    /// Marks the parts of the graph. Notes why there is only one.
    fn with_parts(&self, graph: &[u8], model: &Path) -> Result<Vec<u8>> {
        let weights = model.file_name().unwrap_or_default().to_string_lossy();
        let marked = parts::marked(graph, &weights)?;
        if marked.part_count == 1 {
            let few = "it has less than 2 MiB of weights, or one node needs most of them";
            let why = marked.obstacle.unwrap_or_else(|| few.into());
            *self.obstacle.borrow_mut() = Some(format!("the graph has one part: {why}"));
        }
        Ok(marked.model)
    }
}

impl Companion for Graph<'_> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn keeps_dtype(&self, tensor: &Tensor) -> bool {
        self.inputs.contains(&tensor.name) || !is_float(&tensor.dtype)
    }

    fn write(&self, written: &[&Tensor], model: &Path) -> Result<FinishedFile> {
        let places = self.places(written)?;
        let place_of = |name: &str| places.get(name).cloned().unwrap_or(InitializerStorage::Kept);
        let mut graph = parsed(self.input, &|window| rewrite::rewrite(window, &place_of))?;
        if self.by_layer {
            graph = self.with_parts(&graph, model)?;
        }
        let mut file = PartialFile::create(&self.path)?;
        file.write(&graph)?;
        file.finish()
    }
}

/// Reads a small tensor.
fn read(input: &dyn Input, tensor: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for component in &tensor.components {
        input.read_pieces(tensor, &component.role, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
    }
    Ok(bytes)
}

/// Like [`cast::target_dtype`]. Only floats of at least 16 bits are cast: a node `Cast` restores their type.
fn target_dtype(tensor: &Tensor, wanted: &Dtype) -> Option<Dtype> {
    cast::target_dtype(tensor, wanted).filter(|_| is_float(&tensor.dtype))
}

fn is_float(dtype: &Dtype) -> bool {
    data_type_of(dtype).is_some() || *dtype == Dtype::F64
}

/// The data type of ONNX of the dtypes that tensors are cast to.
fn data_type_of(dtype: &Dtype) -> Option<u64> {
    match dtype {
        Dtype::F32 => Some(1),
        Dtype::F16 => Some(10),
        Dtype::BF16 => Some(16),
        _ => None,
    }
}
