//! Row selections: the decoded bytes of the rows.

use crate::codec::dequantize::decoder_of;
use crate::dtype::{APR_Q4, APR_Q8, Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{BlockEnd, BlockSpan, Component, Layout, PageTable, StoredEnd, Tensor};
use crate::pipeline::Extent;
use std::ops::Range;
use std::sync::Arc;

/// Rows of a dense tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) shape: Vec<u64>,
    /// Their range in the decoded bytes of the component that is read.
    pub(crate) bytes: Range<u64>,
    /// The number of elements in `bytes` before the rows, which are read because a scale precedes all elements.
    pub(crate) skipped: u64,
    /// Where the component that is read begins in the tensor's own, if only some blocks of that are read.
    pub(crate) span: Option<BlockSpanStart>,
}

/// Where the blocks begin that are read of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSpanStart {
    pub(crate) at: BlockEnd,
    /// Complete if the end of the blocks is known, too, so that all blocks are decoded and compared with the index.
    pub(crate) end: StoredEnd,
}

impl Rows {
    /// The same rows of the tensor that has only the blocks of `span`, and that tensor.
    pub(crate) fn of_span(self, tensor: &Tensor, span: BlockSpan) -> (Arc<Tensor>, Self) {
        let BlockSpan { component, start, end } = span;
        let tensor = Tensor { components: vec![component], ..tensor.clone() };
        let bytes = self.bytes.start - start.decoded..self.bytes.end - start.decoded;
        (Arc::new(tensor), Rows { bytes, span: Some(BlockSpanStart { at: start, end }), ..self })
    }

    /// Which bytes of the component are read for the rows.
    pub(crate) fn extent(&self, component: &Component) -> Extent {
        match self.span {
            Some(span) => Extent::of_blocks(component, self.bytes.clone(), span.end),
            None => Extent::of(component, self.bytes.clone()),
        }
    }
}

/// The rows `[first, end)` of a dense tensor. Those of APR_Q8 are read from the scale on, which precedes the first row,
/// and mean nothing unless they are converted, to the dtype `to`.
///
/// # Errors
/// `INVALID_ARGUMENT` if the tensor is not dense, if the rows are out of range, or if a row is not a whole number of
/// bytes or blocks.
pub(crate) fn rows_of(tensor: &Tensor, rows: Range<u64>, to: Option<&Dtype>) -> Result<Rows> {
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name));
    let shape = shape_of_rows(tensor, &rows)?;
    let (row_count, row_shape) = tensor.shape.split_first().map_or((0, &[][..]), |(count, shape)| (*count, shape));
    if tensor.quantized().is_some() {
        return refuse("rows of a quantized tensor of several components can be read only as floats".to_owned());
    }
    let (Layout::Dense, [component]) = (&tensor.layout, tensor.components.as_slice()) else {
        return refuse(format!("rows can be read from dense tensors only; the layout is {}", tensor.layout.name()));
    };
    let scale_bytes = decoder_of(&component.dtype).map_or(0, |decoder| decoder.scale_bytes as u64);
    if scale_bytes > 0 && to.is_none() {
        return refuse(format!("rows of {} can be read only as floats", component.dtype));
    }
    let row_elements = element_count(row_shape);
    let row_bytes = row_elements.clone().and_then(|count| byte_length(&component.dtype, count));
    let Ok(Some(row_bytes)) = row_bytes else {
        return refuse(format!("a row is not a whole number of {} blocks", component.dtype));
    };
    // Some tools pad blocks at the end of a row or of the tensor. Such tensors are refused.
    let byte_length = row_bytes.checked_mul(row_count).and_then(|bytes| bytes.checked_add(scale_bytes));
    if byte_length.is_none() || component.decoded_length.is_some_and(|length| Some(length) != byte_length) {
        return refuse(format!("its length is not {row_count} rows of {row_bytes} bytes"));
    }
    if scale_bytes > 0 {
        let skipped = rows.start.saturating_mul(row_elements?);
        return Ok(Rows { shape, bytes: 0..scale_bytes + rows.end * row_bytes, skipped, span: None });
    }
    Ok(Rows { shape, bytes: rows.start * row_bytes..rows.end * row_bytes, skipped: 0, span: None })
}

/// The shape of rows of a tensor.
///
/// # Errors
/// `INVALID_ARGUMENT` for a scalar, and for rows out of range.
pub(crate) fn shape_of_rows(tensor: &Tensor, rows: &Range<u64>) -> Result<Vec<u64>> {
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name));
    let mut shape = tensor.shape.clone();
    let Some(row_count) = shape.first_mut() else { return refuse("a scalar has no rows".to_owned()) };
    if rows.start > rows.end || rows.end > *row_count {
        let Range { start, end } = rows;
        return refuse(format!("rows {start} to {end} are out of range: the tensor has {row_count} rows"));
    }
    *row_count = rows.end - rows.start;
    Ok(shape)
}

/// The page digests that verify these rows of a component's tensor, or all of it.
pub(crate) fn pages<'a>(component: &'a Component, rows: Option<&Rows>) -> Option<&'a PageTable> {
    match rows {
        None => component.pages_of_whole(),
        Some(_) => component.pages.as_deref(),
    }
}

/// Like [`Dtype::byte_length`], also for the blocks of APR, without the scale that precedes those of APR_Q8.
fn byte_length(dtype: &Dtype, elements: u64) -> Result<Option<u64>> {
    match (dtype.name(), decoder_of(dtype)) {
        (APR_Q4 | APR_Q8, Some(block)) => {
            let blocks = elements / block.elements as u64;
            let is_whole = elements.is_multiple_of(block.elements as u64);
            Ok(blocks.checked_mul(block.bytes as u64).filter(|_| is_whole))
        }
        _ => dtype.byte_length(elements),
    }
}
