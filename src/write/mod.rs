//! Writes models: reads one through an [`Input`] and streams it into another format.
//!
//! Only a few blocks of the model are in memory, independent of its size. Files are written under temporary names and
//! renamed when all of them are complete, so that a failed or interrupted conversion leaves no incomplete model. The
//! same input and options give the same bytes.

pub mod cast;
mod folder;
#[cfg(all(feature = "onnx", feature = "apr", feature = "safetensors"))]
mod graph;
mod input;
mod npy;
mod options;
mod order;
mod plan;
mod positions;
mod source;

pub use crate::output::writer::{Compression, DigestAlgorithm, Writer};
pub use folder::folder_metadata;
pub use input::Input;
pub use npy::{ExtractOptions, Extracted, extract_npy};
pub use options::{ConvertOptions, format_named, format_of_name, formats};
pub use order::TensorOrder;

use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor, saturating_sum};
use crate::output::file::{self, FinishedFile};
use crate::output::losses::Losses;
use crate::output::target::Target;
use crate::output::{destination, shards};
use crate::progress::Progress;
use cast::NotCast;
use plan::Plan;
use positions::are_positions;
use source::Source;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The result of [`convert`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The path to open the model with: the file or the manifest.
    pub path: PathBuf,
    /// The files of tensors, in order, each with its length in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// The number of tensors in the files.
    pub tensors: usize,
    /// The total decoded size of the tensors of the input, in bytes.
    pub decoded_bytes: u64,
    /// The sizes of the tensors in the files before and after each step.
    pub sizes: Sizes,
    /// The dtypes that tensors were cast from, and the one that they were cast to; `None` if no tensor was cast.
    pub cast: Option<(Vec<Dtype>, Dtype)>,
    /// The compression that was used; [`Compression::None`] if the format has none.
    pub compression: Compression,
    /// Warnings about the conversion.
    pub warnings: Vec<String>,
}

/// The total sizes of the tensors that were written, in bytes. Bytes that tied tensors share count once if the format
/// stores them once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Decoded, in the dtypes of the input.
    pub source: u64,
    /// Decoded, in the dtypes of the files: after casts.
    pub cast: u64,
    /// As stored in the files: after compression, and with padding.
    pub stored: u64,
}

/// Reads all tensors of `input` and writes them to `out`: one file, or several with a manifest.
///
/// If `input` is an ONNX model, and `out` is a folder or ends with a separator, the graph is written too: `model.onnx`,
/// whose external data is `model.safetensors`, and the weights as `model.apr`, or in another format. See the
/// documentation of the command line.
///
/// # Errors
/// `UNSUPPORTED` and `LIMIT` for data that the target format cannot store; `INVALID_ARGUMENT` if an output is an input,
/// is not a regular file (a folder, a device, a symbolic link), or exists and [`ConvertOptions::keep_existing`] is set,
/// or if the format does not support an option or cannot be inferred from the name of the output; `IO`; errors of
/// reading. After an error, existing files at the outputs are unchanged, unless the error occurred while finished files
/// were renamed.
pub fn convert(
    input: &dyn Input,
    out: &Path,
    options: &ConvertOptions,
    progress: &(dyn Progress + Sync),
) -> Result<Converted> {
    #[cfg(all(feature = "onnx", feature = "apr", feature = "safetensors"))]
    if graph::is_split(input, out) {
        return graph::convert(input, out, options, progress);
    }
    convert_to(input, out, options, progress, None)
}

/// A file that is written and published together with a model.
trait Companion {
    /// The path of the file.
    fn path(&self) -> &Path;

    /// Whether a tensor must not be cast.
    fn keeps_dtype(&self, tensor: &Tensor) -> bool;

    /// Writes the file. `written` are the tensors of the model as they will be read from it.
    fn write(&self, written: &[&Tensor]) -> Result<FinishedFile>;
}

fn convert_to(
    input: &dyn Input,
    out: &Path,
    options: &ConvertOptions,
    progress: &(dyn Progress + Sync),
    companion: Option<&dyn Companion>,
) -> Result<Converted> {
    let mut losses = Losses::new(options.allow_loss);
    let (format, writer) = options.writer(out)?;
    let mut source = Source::of(input, format)?;
    let mut warnings = std::mem::take(&mut source.warnings);
    let target = (writer.new)(&options.settings(format, writer, input, &source)?, &mut losses)?;
    let mut tensors = target_tensors(input, options.dtype.as_ref(), &*target, &mut losses, companion)?;
    options.order.sort(&mut tensors)?;
    warnings.extend(losses.into_warnings());
    warnings.extend(options.dtype.iter().flat_map(|dtype| not_cast(input, dtype)));
    let files = divide(&*target, options.max_shard_bytes, &tensors, &mut warnings)?;
    for range in &files {
        target.arrange(tensors.get_mut(range.clone()).unwrap_or_default());
    }
    let plan = Plan::new(&*target, out, files, &tensors)?;
    for path in plan.paths().chain(companion.map(Companion::path)) {
        destination::check(path, &input.paths(), options.keep_existing)?;
    }
    let decoded_bytes = saturating_sum(input.tensors().iter().filter_map(Tensor::byte_length));
    progress.expects(decoded_bytes);

    let written: Vec<_> = plan.shards.iter().flat_map(|tensors| tensors.iter()).collect();
    let last = companion.map(|companion| companion.write(&written)).transpose()?;
    let (mut finished, sizes) = plan.write(input, progress)?;
    finished.extend(last);
    check_cancelled(progress)?;
    file::publish(finished, options.keep_existing)?;
    let with_length = |path: PathBuf| {
        let byte_length = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        (path, byte_length)
    };
    let compression = match options.compression {
        Compression::Auto => writer.compressions.first().copied().unwrap_or_default(),
        compression => compression,
    };
    let cast_from = cast_from(input, &tensors);
    let cast = options.dtype.clone().filter(|_| !cast_from.is_empty()).map(|dtype| (cast_from, dtype));
    let (path, tensors) = (plan.model_path().to_owned(), tensors.len());
    let files = plan.shard_paths.into_iter().map(with_length).collect();
    Ok(Converted { path, files, tensors, decoded_bytes, sizes, cast, compression, warnings })
}

/// Returns the tensors to write: cast if requested, and checked by the target.
fn target_tensors(
    input: &dyn Input,
    dtype: Option<&Dtype>,
    target: &dyn Target,
    losses: &mut Losses,
    companion: Option<&dyn Companion>,
) -> Result<Vec<Tensor>> {
    let mut wanted = Vec::with_capacity(input.tensors().len());
    if dtype.is_some() {
        check_views(input.tensors())?;
    }
    for tensor in input.tensors() {
        let dtype = dtype.filter(|_| !companion.is_some_and(|companion| companion.keeps_dtype(tensor)));
        let tensor = match dtype.and_then(|dtype| cast::target_dtype(tensor, dtype)) {
            Some(dtype) => in_dtype(tensor, dtype).map_err(|e| e.in_tensor(&tensor.name))?,
            None => tensor.clone(),
        };
        match target.check(&tensor, losses) {
            Ok(()) => wanted.push(tensor),
            Err(_) if are_positions(input, &tensor)? => {
                losses.warn(format!("left out: tensor \"{}\", positions that readers compute themselves", tensor.name));
            }
            Err(error) => losses.leave_out(error.in_tensor(&tensor.name))?,
        }
    }
    Ok(wanted)
}

/// Checks that tensors with the same bytes have the same dtype, so that they also have the same bytes after a cast.
fn check_views(tensors: &[Tensor]) -> Result<()> {
    // Tensors with the same bytes are next to each other in file order.
    for pair in tensors.windows(2) {
        if let [one, other] = pair
            && one.shares_bytes_with(other)
            && one.dtype != other.dtype
        {
            let what =
                format!("it has the same bytes as \"{}\", but as {} instead of {}", one.name, other.dtype, one.dtype);
            let error = Error::new(ErrorKind::Unsupported, what).in_tensor(&other.name);
            return Err(error.advise("Convert the model without `--dtype`."));
        }
    }
    Ok(())
}

/// Returns the tensor with another dtype. The digests and the quantization of the source do not apply to the new bytes.
fn in_dtype(tensor: &Tensor, dtype: Dtype) -> Result<Tensor> {
    let decoded_length = dtype.byte_length(element_count(&tensor.shape)?)?;
    let cast = |component: &Component| Component {
        dtype: dtype.clone(),
        decoded_length,
        digest: None,
        pages: None,
        ..component.clone()
    };
    let components = tensor.components.iter().map(cast).collect();
    let mut attributes = tensor.attributes.clone();
    // AERO describes quantized elements with these.
    attributes.retain(|key, _| !key.starts_with("quant_"));
    Ok(Tensor { dtype: dtype.clone(), components, attributes, ..tensor.clone() })
}

/// Returns the dtypes of the tensors of the input that are written in another dtype, in file order.
fn cast_from(input: &dyn Input, written: &[Tensor]) -> Vec<Dtype> {
    let written: HashMap<&str, &Dtype> = written.iter().map(|tensor| (&*tensor.name, &tensor.dtype)).collect();
    let mut dtypes = Vec::new();
    for Tensor { name, dtype, .. } in input.tensors() {
        if written.get(&**name).is_some_and(|written| *written != dtype) && !dtypes.contains(dtype) {
            dtypes.push(dtype.clone());
        }
    }
    dtypes
}

/// Returns warnings about tensors that are not cast although a cast was requested: one for each dtype and reason.
fn not_cast(input: &dyn Input, dtype: &Dtype) -> Vec<String> {
    let mut groups: BTreeMap<_, (usize, &str)> = BTreeMap::new();
    for tensor in input.tensors() {
        if let Some(reason) = cast::why_not_cast(tensor, dtype) {
            groups.entry((reason, tensor.dtype.name())).or_insert((0, &tensor.name)).0 += 1;
        }
    }
    let warning = |((reason, stored), (count, first))| {
        let (why, advice) = match reason {
            NotCast::Rows => ("their rows do not fill its blocks", "F16 and BF16 have no blocks"),
            NotCast::Dtype => ("this dtype cannot be decoded", "Convert them with the tool that wrote the model"),
            NotCast::Padding => ("their rows may be padded", "Convert them with the tool that wrote the model"),
        };
        let noun = if count == 1 { "tensor" } else { "tensors" };
        format!("not cast to {dtype}: {count} {noun} of {stored}, because {why}; the first is \"{first}\". {advice}.")
    };
    groups.into_iter().map(warning).collect()
}

/// Assigns tensors to files.
fn divide(
    target: &dyn Target,
    max_shard_bytes: Option<u64>,
    tensors: &[Tensor],
    warnings: &mut Vec<String>,
) -> Result<Vec<Range<usize>>> {
    match (target.sharded(), max_shard_bytes) {
        (Some(sharded), limit) => shards::assign(sharded, tensors, limit.unwrap_or(u64::MAX), warnings),
        (None, None) => Ok(std::iter::once(0..tensors.len()).collect()),
        (None, Some(_)) => {
            let error = Error::new(ErrorKind::InvalidArgument, "this format does not support models in several files");
            Err(error.advise(format!(
                "Leave `--shard-size` out, or choose one of {}.",
                options::names(|writer| writer.shards)
            )))
        }
    }
}

fn check_cancelled(progress: &(dyn Progress + Sync)) -> Result<()> {
    match progress.is_cancelled() {
        true => Err(Error::new(ErrorKind::Io, "the conversion was interrupted").advise("Run it again.")),
        false => Ok(()),
    }
}
