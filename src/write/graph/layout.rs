//! The positions of tensors in the model as one SafeTensors file, to which a graph refers.

use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::format::safetensors;
use crate::index::Tensor;
use serde_json::{Map, json};
use std::ops::Range;

/// The header ends at a multiple of this.
const ALIGNMENT: u64 = 8;

/// Returns the byte range of each tensor. The header is compact JSON with the tensors in their order, without metadata,
/// and padded with spaces; the data has no gaps. Dtypes that SafeTensors does not have are `U8` of the stored bytes.
///
/// # Errors
/// `UNSUPPORTED` for tensors of unknown size.
pub(super) fn ranges(tensors: &[&Tensor]) -> Result<Vec<Range<u64>>> {
    let (mut header, mut ranges, mut offset) = (Map::new(), Vec::new(), 0u64);
    for tensor in tensors {
        let unknown = || Error::new(ErrorKind::Unsupported, "its size is unknown").in_tensor(&tensor.name);
        let length = tensor.byte_length().ok_or_else(unknown)?;
        let end = offset.checked_add(length).ok_or_else(unknown)?;
        let fits = element_count(&tensor.shape).and_then(|count| tensor.dtype.byte_length(count)) == Ok(Some(length));
        let (dtype, shape) = match safetensors::has_dtype(&tensor.dtype) && fits {
            true => (&tensor.dtype, tensor.shape.clone()),
            false => (&Dtype::U8, vec![length]),
        };
        let entry = json!({ "dtype": dtype.name(), "shape": shape, "data_offsets": [offset, end] });
        header.insert(tensor.name.clone(), entry);
        ranges.push(offset..end);
        offset = end;
    }
    let text = serde_json::to_string(&header).map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
    let start = (8 + text.len() as u64).next_multiple_of(ALIGNMENT);
    let shifted = |range: Range<u64>| Some(range.start.checked_add(start)?..range.end.checked_add(start)?);
    let too_large = || Error::new(ErrorKind::Limit, "the tensors have more than 2^64 bytes");
    ranges.into_iter().map(|range| shifted(range).ok_or_else(too_large)).collect()
}
