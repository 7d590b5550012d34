//! Writes models: reads one through an [`Input`] and streams it into another format.
//!
//! Only a few blocks of the model are in memory, independent of its size. Files are written under temporary names and
//! renamed when all of them are complete, so that a failed or interrupted conversion leaves no incomplete model. The
//! same input and options give the same bytes.

pub mod cast;
mod checked;
pub(crate) mod conversion;
mod folder;
#[cfg(all(feature = "onnx", feature = "apr", feature = "safetensors"))]
mod graph;
mod input;
mod npy;
mod options;
mod order;
mod output;
pub(crate) mod plan;
mod positions;
mod source;

pub use crate::output::writer::{Compression, DigestAlgorithm, Writer};
pub use folder::folder_metadata;
pub use input::{Extent, Input};
pub use npy::{ExtractOptions, Extracted, extract_npy};
pub use options::{ConvertOptions, format_named, format_of_name, formats};
pub use order::TensorOrder;
pub use output::{check_output, write_output};

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Tensor, saturating_sum};
use crate::output::file::{self, FinishedFile};
use crate::output::target::Target;
use crate::output::{destination, shards};
use crate::progress::Progress;
use conversion::Conversion;
use plan::Plan;
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

/// Reads all tensors of `input` and writes them to `out`: one file, or several with a manifest. Compares whatever
/// [`Reader::verify`](crate::native::Reader::verify) compares before the files get their names.
///
/// If `input` is an ONNX model, and `out` is a folder or ends with a separator, the graph is written too: `model.onnx`,
/// whose external data is `model.safetensors`, and the weights as `model.apr`, or in another format. See the
/// documentation of the command line.
///
/// # Errors
/// `UNSUPPORTED` and `LIMIT` for data that the target format cannot store; `INVALID_ARGUMENT` if an output is an input,
/// is not a regular file (a folder, a device, a symbolic link), or exists and [`ConvertOptions::keep_existing`] is set,
/// or if the format does not support an option or cannot be inferred from the name of the output; `CHECKSUM` for a
/// damaged input; `IO`; errors of reading. After an error, existing files at the outputs are unchanged, unless it
/// occurred while finished files were renamed.
pub fn convert(
    input: &dyn Input,
    out: &Path,
    options: &ConvertOptions,
    progress: &(dyn Progress + Sync),
) -> Result<Converted> {
    let checked = input.begin()?;
    let input = checked.as_deref().unwrap_or(input);
    #[cfg(all(feature = "onnx", feature = "apr", feature = "safetensors"))]
    if graph::is_split(input, out) {
        return graph::convert(input, out, options, progress);
    }
    convert_to(input, out, options, progress, None)
}

/// A file that is written and published together with a model.
pub(crate) trait Companion {
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
    let Conversion { target, mut tensors, writer, mut warnings } = Conversion::prepare(input, out, options, companion)?;
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
    input.compare_files(Extent::Whole, progress)?;
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
    let cast_from = conversion::cast_from(input, &tensors);
    let cast = options.dtype.clone().filter(|_| !cast_from.is_empty()).map(|dtype| (cast_from, dtype));
    let (path, tensors) = (plan.model_path().to_owned(), tensors.len());
    let files = plan.shard_paths.into_iter().map(with_length).collect();
    Ok(Converted { path, files, tensors, decoded_bytes, sizes, cast, compression, warnings })
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
                "Leave `ConvertOptions::max_shard_bytes` out, or choose one of {}.",
                options::names(|writer| writer.shards)
            )))
        }
    }
}

pub(crate) fn check_cancelled(progress: &(dyn Progress + Sync)) -> Result<()> {
    match progress.is_cancelled() {
        true => Err(Error::new(ErrorKind::Io, "the conversion was interrupted").advise("Run it again.")),
        false => Ok(()),
    }
}
