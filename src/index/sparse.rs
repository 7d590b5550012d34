//! Checks the indices of sparse tensors: their number, bounds and order.

mod counts;
mod indices;

use super::{Component, Layout, Tensor};
use crate::dtype::Dtype;
use crate::error::{Result, malformed};
pub(crate) use counts::check_counts;
pub(crate) use indices::index_checks;

impl Tensor {
    /// Whether the tensor has indices that [`index_checks`] can check.
    pub(crate) fn is_sparse(&self) -> bool {
        matches!(self.layout, Layout::SparseCsr | Layout::SparseCoo)
    }
}

/// The width of an element; `None` if the dtype is not known, as that of bytes in an unknown encoding.
fn element_bytes(component: &Component) -> Result<Option<u64>> {
    let Component { role, dtype, range, .. } = component;
    let is_index = matches!(&**role, "indices" | "indptr" | "coords");
    let is_integer = index_bytes(dtype).is_some();
    match dtype.block() {
        Some(block) if block.elements == 1 && (is_integer || !is_index) => Ok(Some(block.bytes)),
        Some(_) if is_index => Err(malformed(format!("`{role}` are {dtype}, but must be integers")).at(range.clone())),
        _ => Ok(None),
    }
}

/// The width of an index; `None` for a dtype that is not an integer.
pub(crate) fn index_bytes(dtype: &Dtype) -> Option<usize> {
    let is_integer = is_signed(dtype) || matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64);
    dtype.block().filter(|_| is_integer).map(|block| block.bytes as usize)
}

fn is_signed(dtype: &Dtype) -> bool {
    matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64)
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
