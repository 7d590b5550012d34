//! Assigns tensors to files, before anything is written.

use super::target::{Place, Sharded};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{MAX_PARTS, Tensor, part_path};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The size of a file in bytes, without compression.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FileSize {
    pub(crate) head: u64,
    /// From the start of the first tensor to the end of the last, including padding.
    pub(crate) data: u64,
    pub(crate) tensors: u64,
}

/// Assigns tensors to files in the order of the source. A file is full if the next tensor, at its maximum length, would
/// exceed the limit. A tensor that exceeds the limit alone gets its own file, with a warning.
pub(crate) fn assign(
    format: &dyn Sharded,
    tensors: &[Tensor],
    max_bytes: u64,
    warnings: &mut Vec<String>,
) -> Result<Vec<Range<usize>>> {
    let mut files: Vec<Range<usize>> = Vec::new();
    let (mut start, mut size) = (0, empty(format, true));
    if format.begins_without_tensors() && !tensors.is_empty() {
        format.check_head(&size)?;
        files.push(0..0);
        size = empty(format, false);
    }
    for (at, tensor) in tensors.iter().enumerate() {
        let place = |error: Error| error.in_tensor(&tensor.name);
        let mut extended = with(format, &size, tensor).map_err(place)?;
        if size.tensors > 0 && format.file_bytes(&extended) > max_bytes {
            files.push(start..at);
            check_count(files.len())?;
            start = at;
            extended = with(format, &empty(format, false), tensor).map_err(place)?;
        }
        let file_bytes = format.file_bytes(&extended);
        if extended.tensors == 1 && file_bytes > max_bytes {
            let name = &tensor.name;
            warnings
                .push(format!("tensor \"{name}\" alone makes a file of {file_bytes} bytes; the limit is {max_bytes}"));
        }
        format.check_head(&extended).map_err(place)?;
        size = extended;
    }
    format.check_head(&size)?; // also for a model without tensors
    files.push(start..tensors.len());
    check_count(files.len())?;
    Ok(files)
}

/// Checks the number of files against the reader's limit.
fn check_count(files: usize) -> Result<()> {
    match files as u64 {
        0..=MAX_PARTS => Ok(()),
        _ => {
            let what = format!("the model would have more than {MAX_PARTS} files, the maximum that weightstream reads");
            let error = Error::new(ErrorKind::InvalidArgument, what);
            Err(error.advise("Allow larger files with `--shard-size`."))
        }
    }
}

fn empty(format: &dyn Sharded, is_first: bool) -> FileSize {
    FileSize { head: format.empty_head_bytes(is_first), ..FileSize::default() }
}

fn with(format: &dyn Sharded, size: &FileSize, tensor: &Tensor) -> Result<FileSize> {
    let too_long = || Error::new(ErrorKind::Limit, "with it the file would have more than 2^64 bytes");
    let start = size.data.checked_next_multiple_of(format.alignment()).ok_or_else(too_long)?;
    let end = start.checked_add(format.max_data_bytes(tensor)?);
    Ok(FileSize {
        head: size.head + format.entry_bytes(tensor),
        data: end.filter(|end| *end < u64::MAX / 2).ok_or_else(too_long)?,
        tensors: size.tensors + 1,
    })
}

/// Returns the usual path of a shard next to `out`: `model-00001-of-00003.safetensors`.
pub(crate) fn numbered_path(out: &Path, extension: &str, place: Place) -> Result<PathBuf> {
    let stem = stem(out, extension).filter(|stem| part_path(stem).is_ok());
    let stem = stem.ok_or_else(|| {
        let error = Error::new(ErrorKind::InvalidArgument, "a manifest cannot contain file names like this one");
        error.advise("Choose a name in UTF-8 without `:` and `\\`.").in_file(&out.display().to_string())
    })?;
    let Place { number, count, .. } = place;
    Ok(out.with_file_name(format!("{stem}-{:05}-of-{count:05}.{extension}", number + 1)))
}

/// Returns the common prefix of a model's file names: `model` for `model.apr` and `model.safetensors.index.json`.
pub(crate) fn stem<'a>(out: &'a Path, extension: &str) -> Option<&'a str> {
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split_once(&format!(".{extension}")).map(|(stem, _)| stem).filter(|stem| !stem.is_empty());
    stem.or_else(|| out.file_stem()?.to_str())
}
