//! Assigns tensors to the files that are published.

use super::previous::Previous;
use std::ops::Range;
use weightstream::internals::index::Tensor;
use weightstream::internals::output;
use weightstream::internals::output::Sharded;
use weightstream::internals::publication::MAX_PARTS;
use weightstream::internals::write::Conversion;
use weightstream::{Error, ErrorKind, Result};

/// The maximum size of a file, unless the caller states one.
const FILE_BYTES: u64 = 24 << 20;

/// Sorts the tensors by file, and returns the range of the tensors of each file.
///
/// # Errors
/// `INVALID_ARGUMENT` if a stated size gives too many files.
pub(super) fn divide(
    conversion: &mut Conversion,
    max_bytes: Option<u64>,
    previous: Option<&Previous>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Range<usize>>> {
    let Conversion { target, tensors, .. } = conversion;
    let format = target.sharded().ok_or_else(|| Error::new(ErrorKind::Internal, "the format has no manifest"))?;
    let (kept, rest) = match previous {
        Some(previous) => previous.keep_files(std::mem::take(tensors)),
        None => (Vec::new(), std::mem::take(tensors)),
    };
    let max_bytes = match max_bytes {
        Some(bytes) => bytes,
        None => file_bytes(format, &rest, MAX_PARTS.saturating_sub(kept.len() as u64), warnings)?,
    };
    let mut files = Vec::new();
    for kept in kept {
        files.push(tensors.len()..tensors.len() + kept.len());
        tensors.extend(kept);
    }
    if !rest.is_empty() || files.is_empty() {
        let assigned = output::assign(format, &rest, max_bytes, warnings)?;
        let start = tensors.len();
        files.extend(assigned.into_iter().map(|range| start + range.start..start + range.end));
        tensors.extend(rest);
    }
    if files.len() as u64 > MAX_PARTS {
        let what = format!("the model would have {} files, and weightstream reads at most {MAX_PARTS}", files.len());
        let error = Error::new(ErrorKind::InvalidArgument, what);
        return Err(error.advise("Publish it without `PublishOptions::previous`, so that it is divided anew."));
    }
    Ok(files)
}

/// The size of files with which the model has at most `max_files`: [`FILE_BYTES`], or a multiple of it.
fn file_bytes(format: &dyn Sharded, tensors: &[Tensor], max_files: u64, warnings: &mut Vec<String>) -> Result<u64> {
    let mut bytes = FILE_BYTES;
    while output::file_count(format, tensors, bytes)? > max_files && bytes < u64::MAX / 2 {
        bytes *= 2;
    }
    if bytes > FILE_BYTES {
        let (usual, size) = (FILE_BYTES >> 20, bytes >> 20);
        warnings.push(format!("files of {usual} MiB would be more than {MAX_PARTS}: they have up to {size} MiB"));
    }
    Ok(bytes)
}
