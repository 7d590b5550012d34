//! Which tensor goes into which file, known before anything is written.

use super::target::{Place, Sharded};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{MAX_PARTS, Tensor, part_path};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How long a file becomes, in bytes, before compression makes it shorter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FileSize {
    pub(crate) head: u64,
    /// From the first tensor to the last one's end, with what aligns them.
    pub(crate) data: u64,
    pub(crate) tensors: u64,
}

/// Fills file after file in the order of the source: a file is full when the next tensor, at its longest, would make
/// it longer than the limit. A tensor that does so alone gets a file of its own and a warning.
pub(crate) fn fill(
    format: &dyn Sharded,
    tensors: &[Tensor],
    max_bytes: u64,
    warnings: &mut Vec<String>,
) -> Result<Vec<Range<usize>>> {
    let mut files: Vec<Range<usize>> = Vec::new();
    let (mut start, mut size) = (0, empty(format, true));
    for (at, tensor) in tensors.iter().enumerate() {
        let place = |error: Error| error.in_tensor(&tensor.name);
        let mut grown = with(format, &size, tensor).map_err(place)?;
        if size.tensors > 0 && format.file_bytes(&grown) > max_bytes {
            files.push(start..at);
            check_count(files.len())?;
            start = at;
            grown = with(format, &empty(format, false), tensor).map_err(place)?;
        }
        let file_bytes = format.file_bytes(&grown);
        if grown.tensors == 1 && file_bytes > max_bytes {
            let name = &tensor.name;
            warnings
                .push(format!("tensor \"{name}\" alone makes a file of {file_bytes} bytes; the limit is {max_bytes}"));
        }
        format.check_head(&grown).map_err(place)?;
        size = grown;
    }
    format.check_head(&size)?; // of a model without tensors, too
    files.push(start..tensors.len());
    check_count(files.len())?;
    Ok(files)
}

/// A model of more files could be written, but not be read.
fn check_count(files: usize) -> Result<()> {
    match files as u64 {
        0..=MAX_PARTS => Ok(()),
        _ => {
            let what = format!("the model would have more than {MAX_PARTS} files, which is all that is read");
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
    let end = start.checked_add(format.longest_data_bytes(tensor)?);
    Ok(FileSize {
        head: size.head + format.entry_bytes(tensor),
        data: end.filter(|end| *end < u64::MAX / 2).ok_or_else(too_long)?,
        tensors: size.tensors + 1,
    })
}

/// The name that all tools give such files: `model-00001-of-00003.safetensors`, beside `out`.
pub(crate) fn numbered_path(out: &Path, extension: &str, place: Place) -> Result<PathBuf> {
    let stem = stem(out, extension).filter(|stem| part_path(stem).is_ok());
    let stem = stem.ok_or_else(|| {
        let error = Error::new(ErrorKind::InvalidArgument, "a manifest cannot name files like this one");
        error.advise("Choose a name in UTF-8 without `:` and `\\`.").in_file(&out.display().to_string())
    })?;
    let Place { number, count } = place;
    Ok(out.with_file_name(format!("{stem}-{:05}-of-{count:05}.{extension}", number + 1)))
}

/// What the names of a model's files begin with: `model.apr` and `model.safetensors.index.json` both give `model`.
pub(crate) fn stem<'a>(out: &'a Path, extension: &str) -> Option<&'a str> {
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split_once(&format!(".{extension}")).map(|(stem, _)| stem).filter(|stem| !stem.is_empty());
    stem.or_else(|| out.file_stem()?.to_str())
}
