//! Checks of a file's tensors that apply to every format.

use super::Tensor;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::name_index::NameIndex;
use crate::sorting::sort;

/// Sorts an index's tensors into file order and checks them: names must be unique, and components must end before
/// `data_end` and must not overlap. At equal offsets, empty tensors come first.
///
/// # Errors
/// `FORMAT` for a duplicate name or an overlap; `TRUNCATED` for a component that ends after `data_end`.
pub(crate) fn check_tensors(tensors: &mut [Tensor], data_end: Option<u64>) -> Result<()> {
    check(tensors, data_end, Equal::Overlap)
}

/// Like [`check_tensors`], for formats in which components may share exactly the same range, as tied weights do.
///
/// # Errors
/// The errors of [`check_tensors`].
pub(crate) fn check_tied_tensors(tensors: &mut [Tensor], data_end: Option<u64>) -> Result<()> {
    check(tensors, data_end, Equal::AreTied)
}

/// Like [`check_tensors`], for formats in which tensors are views, which may overlap in any way.
///
/// # Errors
/// The errors of [`check_tensors`], except for an overlap; `LIMIT` if the tensors have many times the bytes of the
/// file.
#[cfg(feature = "pytorch")]
pub(crate) fn check_views(tensors: &mut [Tensor], data_end: Option<u64>) -> Result<()> {
    check(tensors, data_end, Equal::AreViews)?;
    let ranges = tensors.iter().flat_map(|tensor| &tensor.components).map(|component| &component.range);
    let end = data_end.or(ranges.clone().map(|range| range.end).max()).unwrap_or(0);
    let viewed = ranges.fold(0u64, |sum, range| sum.saturating_add(range.end - range.start));
    let limit = BASE_VIEWED_BYTES.saturating_add(end.saturating_mul(VIEWED_BYTES_PER_BYTE));
    if viewed > limit {
        let what = format!(
            "the tensors are views of {viewed} bytes of a file of {end} bytes; weightstream allows at most {limit}"
        );
        return Err(Error::new(ErrorKind::Limit, what));
    }
    Ok(())
}

/// The bytes that the views in a file of any length may have together.
#[cfg(feature = "pytorch")]
const BASE_VIEWED_BYTES: u64 = 64 << 20;

/// The additional bytes for each byte of the file: models that use the same layer again have at most 24 of them.
/// Prevents a small file from being read for hours.
#[cfg(feature = "pytorch")]
const VIEWED_BYTES_PER_BYTE: u64 = 32;

/// The first of the ascending offsets `starts` that is greater than `start`. A tensor at `start` whose dtype has no
/// known size ends there.
pub(crate) fn next_start(starts: &[u64], start: u64) -> Option<u64> {
    starts.get(starts.partition_point(|&other| other <= start)).copied()
}

/// What components of the same range are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Equal {
    Overlap,
    AreTied,
    /// They may also overlap in part.
    #[cfg(feature = "pytorch")]
    AreViews,
}

fn check(tensors: &mut [Tensor], data_end: Option<u64>, equal: Equal) -> Result<()> {
    sort(tensors, |tensor| (tensor.first_byte(), u64::from(tensor.stored_length() > 0), 0));
    let name_at = &|at: usize| tensors.get(at).map_or("", |tensor| tensor.name.as_str());
    if let Some(duplicate) = NameIndex::new(tensors.len(), name_at).duplicate(name_at) {
        return Err(malformed("the name occurs twice").in_tensor(duplicate));
    }
    let components = || tensors.iter().flat_map(|t| t.components.iter().map(move |c| (t, &c.range)));
    if let Some(data_end) = data_end {
        for (tensor, range) in components() {
            if range.end > data_end {
                let what = format!("its bytes reach to {}, but the file's tensors end at {data_end}", range.end);
                return Err(Error::new(ErrorKind::Truncated, what).at(range.clone()).in_tensor(&tensor.name));
            }
        }
    }
    #[cfg(feature = "pytorch")]
    if equal == Equal::AreViews {
        return Ok(());
    }
    let mut ranges: Vec<_> = components().filter(|(_, range)| !range.is_empty()).collect();
    sort(&mut ranges, |(_, range)| (range.start, range.end, 0));
    if equal == Equal::AreTied {
        ranges.dedup_by_key(|(_, range)| range.clone());
    }
    for pair in ranges.windows(2) {
        if let [(first, a), (second, b)] = pair
            && b.start < a.end
        {
            let what = format!("its bytes overlap those of \"{}\" (bytes {} to {})", first.name, a.start, a.end);
            return Err(malformed(what).at((*b).clone()).in_tensor(&second.name));
        }
    }
    Ok(())
}
