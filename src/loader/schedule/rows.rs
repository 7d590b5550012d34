//! Row selections: the decoded bytes of the rows, and the bytes of the file that must be read for them.

#[cfg(feature = "lz4")]
use crate::codec::lz4;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Encoding, Layout, Tensor};
use std::ops::Range;

/// Rows of a dense tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: Range<u64>,
}

/// The rows `[first, end)` of a dense tensor.
///
/// # Errors
/// `INVALID_ARGUMENT` if the tensor is not dense, if the rows are out of range, or if a row is not a whole number of
/// bytes or blocks.
pub(crate) fn rows_of(tensor: &Tensor, rows: Range<u64>) -> Result<Rows> {
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name));
    let Some((&row_count, row_shape)) = tensor.shape.split_first() else {
        return refuse("a scalar has no rows".to_owned());
    };
    if rows.start > rows.end || rows.end > row_count {
        return refuse(format!(
            "rows {} to {} are out of range: the tensor has {row_count} rows",
            rows.start, rows.end
        ));
    }
    let (Layout::Dense, [component]) = (&tensor.layout, tensor.components.as_slice()) else {
        return refuse(format!("rows can be read from dense tensors only; the layout is {}", tensor.layout.name()));
    };
    let row_bytes = crate::dtype::element_count(row_shape).and_then(|count| component.dtype.byte_length(count));
    let Ok(Some(row_bytes)) = row_bytes else {
        return refuse(format!("a row is not a whole number of {} blocks", component.dtype));
    };
    // Some tools pad blocks at the end of a row or of the tensor. Such tensors are refused.
    let byte_length = row_bytes.checked_mul(row_count);
    if byte_length.is_none() || component.decoded_length.is_some_and(|length| Some(length) != byte_length) {
        return refuse(format!("its length is not {row_count} rows of {row_bytes} bytes"));
    }
    let mut shape = tensor.shape.clone();
    if let Some(first) = shape.first_mut() {
        *first = rows.end - rows.start;
    }
    Ok(Rows { shape, bytes: rows.start * row_bytes..rows.end * row_bytes })
}

/// The bytes to request: for a raw tensor only the rows, for LZ4 blocks at most the blocks up to the last row, and for
/// other encodings the whole component.
pub(crate) fn stored_range(component: &Component, rows: Option<&Rows>) -> Range<u64> {
    let Range { start, end } = component.range.clone();
    match (rows, component.encoding) {
        (None, _) => start..end,
        (Some(rows), encoding) if encoding.keeps_positions() => start + rows.bytes.start..start + rows.bytes.end,
        (Some(rows), _) if rows.bytes.is_empty() => start..start,
        #[cfg(feature = "lz4")]
        (Some(rows), Encoding::Lz4Blocks) => {
            start..end.min(start.saturating_add(lz4::max_stored_length(rows.bytes.end)))
        }
        (Some(_), _) => start..end, // these encodings have no bound on the stored length of a prefix
    }
}
