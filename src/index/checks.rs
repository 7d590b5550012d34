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

/// The first of the ascending offsets `starts` that is greater than `start`. A tensor at `start` whose dtype has no
/// known size ends there.
pub(crate) fn next_start(starts: &[u64], start: u64) -> Option<u64> {
    starts.get(starts.partition_point(|&other| other <= start)).copied()
}

/// What components of exactly the same range are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Equal {
    Overlap,
    AreTied,
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
