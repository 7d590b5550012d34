//! What must hold of the tensors of a file in every format.

use super::Tensor;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::names::Names;

/// Brings an index's tensors into file order (one without bytes before one that begins where it lies) and checks what
/// must hold in every format: unique names, components inside the file (before `data_end`) that do not overlap.
///
/// # Errors
/// `FORMAT` for a duplicate name or an overlap, `TRUNCATED` for a component beyond the file's end.
pub(crate) fn check_tensors(tensors: &mut [Tensor], data_end: Option<u64>) -> Result<()> {
    check(tensors, data_end, false)
}

/// As [`check_tensors`], for formats in which components may have just the same bytes, as tied weights do.
///
/// # Errors
/// As for [`check_tensors`].
pub(crate) fn check_tied_tensors(tensors: &mut [Tensor], data_end: Option<u64>) -> Result<()> {
    check(tensors, data_end, true)
}

/// Where the next tensor begins, of those that begin at `starts` in ascending order: up to there reaches one whose
/// dtype has no known size.
pub(crate) fn next_start(starts: &[u64], start: u64) -> Option<u64> {
    starts.get(starts.partition_point(|&other| other <= start)).copied()
}

fn check(tensors: &mut [Tensor], data_end: Option<u64>, may_be_tied: bool) -> Result<()> {
    let order = |tensor: &Tensor| (tensor.first_byte(), tensor.stored_length() > 0);
    if !tensors.is_sorted_by_key(order) {
        tensors.sort_by_key(order); // takes half as much memory again, whether it is needed or not
    }
    let name_at = &|at: usize| tensors.get(at).map_or("", |tensor| tensor.name.as_str());
    if let Some(twice) = Names::new(tensors.len(), name_at).twice(name_at) {
        return Err(malformed("the name occurs twice").in_tensor(twice));
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
    ranges.sort_by_key(|(_, range)| (range.start, range.end));
    if may_be_tied {
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
