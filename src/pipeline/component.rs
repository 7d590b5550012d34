//! The decoded components of a tensor, and the check of those that are indices.

use crate::buffer::Buffer;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::index::{Tensor, sparse};
use std::borrow::Cow;

/// The bytes of one component.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedComponent<B> {
    /// The component's role in the tensor: `data`, `values`, `indices` …
    pub role: Cow<'static, str>,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The decoded bytes.
    pub buffer: B,
}

/// Checks the indices of a sparse tensor. Tensors of other layouts have none.
///
/// # Errors
/// `FORMAT` if their number, bounds or order are wrong.
pub(crate) fn check_indices<B: Buffer>(tensor: &Tensor, components: &[LoadedComponent<B>]) -> Result<()> {
    match tensor.is_sparse() {
        true => check_sparse_indices(tensor, components), // deferred: only deferred formats have sparse tensors
        false => Ok(()),
    }
}

#[inline(never)] // so that it can be in another part of the npm package's module
fn check_sparse_indices<B: Buffer>(tensor: &Tensor, components: &[LoadedComponent<B>]) -> Result<()> {
    let lengths: Vec<_> = components.iter().map(|component| component.buffer.byte_length()).collect();
    let mut rows = None;
    for (at, mut check) in sparse::index_checks(tensor, &lengths)? {
        if let Some(LoadedComponent { buffer, .. }) = components.get(at) {
            rows.take().into_iter().for_each(|rows| check.with_rows(rows));
            buffer.inspect(0..buffer.byte_length(), &mut |bytes| check.push(bytes))?;
            rows = check.take_rows();
        }
    }
    Ok(())
}
