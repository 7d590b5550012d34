//! Assigns tensors to files, before anything is written.

use super::target::{FileSize, ShardKind, ShardPosition, Sharded};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Digest, MAX_PARTS, Tensor, part_path};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Assigns tensors to files in the order of the source. A file is full if the next tensor, at its maximum length, would
/// exceed the limit. A tensor that exceeds the limit alone gets its own file, with a warning.
///
/// # Errors
/// `INVALID_ARGUMENT` for more files than a model may have; `LIMIT` if a head would be too long for readers.
pub fn assign(
    format: &dyn Sharded,
    tensors: &[Tensor],
    max_bytes: u64,
    warnings: &mut Vec<String>,
) -> Result<Vec<Range<usize>>> {
    let files = divide(format, tensors, max_bytes)?;
    check_count(format, tensors, max_bytes, files.len())?;
    let mut oversized = Oversized::default();
    for (number, range) in files.iter().enumerate() {
        let mut size = empty(format, ShardKind::of(number));
        for tensor in tensors.get(range.clone()).unwrap_or_default() {
            let place = |error: Error| error.in_tensor(&tensor.name);
            size = with(format, &size, tensor).map_err(place)?;
            format.check_head(&size).map_err(place)?;
            if size.tensors == 1 {
                oversized.add(tensor, format.file_bytes(&size), max_bytes);
            }
        }
        format.check_head(&size)?; // also for a file without tensors
    }
    warnings.extend(oversized.warning(max_bytes));
    Ok(files)
}

/// Returns the number of files of at most `max_bytes`.
///
/// # Errors
/// `LIMIT` if a file would have more than 2^64 bytes.
pub fn file_count(format: &dyn Sharded, tensors: &[Tensor], max_bytes: u64) -> Result<u64> {
    divide(format, tensors, max_bytes).map(|files| files.len() as u64)
}

/// Returns the ranges of tensors of the files.
fn divide(format: &dyn Sharded, tensors: &[Tensor], max_bytes: u64) -> Result<Vec<Range<usize>>> {
    let mut files: Vec<Range<usize>> = Vec::new();
    let (mut start, mut size) = (0, empty(format, ShardKind::First));
    if format.begins_without_tensors() && !tensors.is_empty() {
        files.push(0..0);
        size = empty(format, ShardKind::Other);
    }
    for (at, tensor) in tensors.iter().enumerate() {
        let place = |error: Error| error.in_tensor(&tensor.name);
        let mut extended = with(format, &size, tensor).map_err(place)?;
        if size.tensors > 0 && format.file_bytes(&extended) > max_bytes {
            files.push(start..at);
            start = at;
            extended = with(format, &empty(format, ShardKind::Other), tensor).map_err(place)?;
        }
        size = extended;
    }
    files.push(start..tensors.len());
    Ok(files)
}

/// Checks the number of files against [`MAX_PARTS`], the limit of readers: a small size could also fill a disk with
/// files of a few bytes. The error states a size that stays below the limit.
fn check_count(format: &dyn Sharded, tensors: &[Tensor], max_bytes: u64, files: usize) -> Result<()> {
    if files as u64 <= MAX_PARTS {
        return Ok(());
    }
    let what = format!("the model would have {files} files, and weightstream reads at most {MAX_PARTS}");
    let error = Error::new(ErrorKind::InvalidArgument, what);
    for (bytes, name) in round_sizes().filter(|(bytes, _)| *bytes > max_bytes) {
        let files = divide(format, tensors, bytes)?.len();
        if files as u64 <= MAX_PARTS {
            return Err(error.advise(format!(
                "Use a `ConvertOptions::max_shard_bytes` of {name} or more, which makes {}.",
                count(files)
            )));
        }
    }
    Err(error.advise("Leave `ConvertOptions::max_shard_bytes` out."))
}

/// 1kB, 2kB, 5kB, 10kB … 500TB.
fn round_sizes() -> impl Iterator<Item = (u64, String)> {
    let units = [(1_000, "kB"), (1_000_000, "MB"), (1_000_000_000, "GB"), (1_000_000_000_000, "TB")];
    let multiples = [1, 2, 5, 10, 20, 50, 100, 200, 500];
    units.into_iter().flat_map(move |(unit, name)| multiples.map(|times| (times * unit, format!("{times}{name}"))))
}

fn count(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// The tensors that exceed the limit of a file alone.
#[derive(Default)]
struct Oversized {
    tensors: u64,
    /// The largest file with one of them, and the name of that tensor.
    largest: Option<(u64, String)>,
}

impl Oversized {
    fn add(&mut self, tensor: &Tensor, file_bytes: u64, max_bytes: u64) {
        if file_bytes > max_bytes {
            self.tensors += 1;
            if self.largest.as_ref().is_none_or(|(largest, _)| file_bytes > *largest) {
                self.largest = Some((file_bytes, tensor.name.clone()));
            }
        }
    }

    fn warning(self, max_bytes: u64) -> Option<String> {
        let (bytes, name) = self.largest?;
        Some(match self.tensors {
            1 => format!("tensor \"{name}\" alone makes a file of {bytes} bytes; the limit is {max_bytes}"),
            count => format!(
                "{count} tensors alone make files of more than {max_bytes} bytes, the limit; \
                 the largest is \"{name}\", with {bytes} bytes"
            ),
        })
    }
}

fn empty(format: &dyn Sharded, kind: ShardKind) -> FileSize {
    FileSize { head: format.empty_head_bytes(kind), ..FileSize::default() }
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
pub(crate) fn numbered_path(out: &Path, extension: &str, place: ShardPosition) -> Result<PathBuf> {
    let ShardPosition { number, count, .. } = place;
    let stem = checked_stem(out, extension)?;
    Ok(out.with_file_name(format!("{stem}-{:05}-of-{count:05}.{extension}", number + 1)))
}

/// Returns the name of a file that is named by its content, with the first 64 bits of the digest, which suffice to
/// distinguish the files of a folder: `model-7d0f3c2a91b84e65.apr`. `out` is another file of the model, in a format
/// with the extension `format`.
///
/// # Errors
/// `INVALID_ARGUMENT` if a manifest cannot contain the name.
pub fn content_name(out: &Path, format: &str, sha256: &Digest, extension: &str) -> Result<String> {
    let digest = sha256.to_string();
    let start = digest.get(..16).unwrap_or(&digest);
    Ok(format!("{}-{start}.{extension}", checked_stem(out, format)?))
}

/// Returns the common prefix of a model's file names, if a manifest can contain it.
fn checked_stem<'a>(out: &'a Path, extension: &str) -> Result<&'a str> {
    stem(out, extension).filter(|stem| part_path(stem).is_ok()).ok_or_else(|| {
        let error = Error::new(ErrorKind::InvalidArgument, "a manifest cannot contain file names like this one");
        error.advise("Choose a name in UTF-8 without `:` and `\\`.").in_file(&out.display().to_string())
    })
}

/// Returns the common prefix of a model's file names: `model` for `model.apr` and `model.safetensors.index.json`.
pub(crate) fn stem<'a>(out: &'a Path, extension: &str) -> Option<&'a str> {
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split_once(&format!(".{extension}")).map(|(stem, _)| stem).filter(|stem| !stem.is_empty());
    stem.or_else(|| out.file_stem()?.to_str())
}
