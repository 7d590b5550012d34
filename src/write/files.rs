//! Writes the files of one model.

use super::cancellation::check_cancelled;
use super::companion::Companion;
use super::conversion::{self, Conversion};
use super::converted::Sizes;
use super::plan::Plan;
use super::{Compression, ConvertOptions, Converted, Extent, Input, formats};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Tensor, saturating_sum};
use crate::output::target::Target;
use crate::output::{destination, file, shards};
use crate::progress::Progress;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Reads all tensors of `input` and writes them to `out`, with the companion.
pub(super) fn convert_to(
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
        destination::check(path, &input.paths(), options.existing())?;
    }
    let decoded_bytes = saturating_sum(input.tensors().iter().filter_map(Tensor::byte_length));
    progress.expects(decoded_bytes);

    let written: Vec<_> = plan.shards.iter().flat_map(|tensors| tensors.iter()).collect();
    let last = companion.map(|companion| companion.write(&written, plan.model_path())).transpose()?;
    let (mut finished, sizes) = plan.write(input, progress)?;
    finished.extend(last);
    input.compare_files(Extent::Whole, progress)?;
    check_cancelled(progress)?;
    file::publish(finished, options.existing())?;
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
    warnings.extend(compression_warning(options.compression, sizes));
    let (path, tensors) = (plan.model_path().to_owned(), tensors.len());
    let files = plan.shard_paths.into_iter().map(with_length).collect();
    Ok(Converted { path, files, tensors, decoded_bytes, sizes, cast, compression, warnings })
}

/// A warning if the compression that was asked for does not make the model smaller.
fn compression_warning(asked: Compression, sizes: Sizes) -> Option<String> {
    let name = match asked {
        Compression::Lz4 => "LZ4",
        Compression::Zstd => "Zstandard",
        Compression::None | Compression::Auto => return None,
    };
    let is_smaller = sizes.stored < sizes.cast || sizes.cast == 0;
    let what = format!("{name} does not make this model smaller: tensors that would get larger are not compressed");
    (!is_smaller).then(|| format!("{what}. Floats get smaller in zTensor, with the compression `auto`."))
}

/// Assigns tensors to files.
fn divide(
    target: &dyn Target,
    max_shard_bytes: Option<u64>,
    tensors: &[Tensor],
    warnings: &mut Vec<String>,
) -> Result<Vec<Range<usize>>> {
    match (target.sharded(), max_shard_bytes) {
        (Some(sharded), Some(limit)) => shards::assign(sharded, tensors, limit, warnings),
        (Some(sharded), None) => {
            let limit = sharded.max_file_bytes().unwrap_or(u64::MAX);
            shards::assign(sharded, tensors, limit, &mut Vec::new()) // the caller has chosen no limit to exceed
        }
        (None, None) => Ok(std::iter::once(0..tensors.len()).collect()),
        (None, Some(_)) => {
            let error = Error::new(ErrorKind::InvalidArgument, "this format does not support models in several files");
            Err(error.advise(format!(
                "Leave `ConvertOptions::max_shard_bytes` out, or choose one of {}.",
                formats::names(|writer| writer.shards)
            )))
        }
    }
}
