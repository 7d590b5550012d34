//! Dense tensors of one raw component, without digest and attributes: most tensors of most files.

use super::{Component, DATA, Encoding, Layout, Tensor};
use crate::dtype::Dtype;
use crate::sorting::SortKey;
use std::ops::Range;

/// The maximum number of bytes that are reserved for what a file may still contain.
const MAX_RESERVED_BYTES: u64 = 8 << 20;

/// A list of such tensors, each in a row of 32 bytes and its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RawTensors {
    rows: Vec<Row>,
    /// The names, one after another.
    names: String,
    /// The shapes. Equal shapes in sequence are stored once.
    dims: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// The range of the stored bytes.
    start: u64,
    end: u64,
    /// The position and length of the name in `names`.
    name: u32,
    name_length: u32,
    /// The position of the shape in `dims`.
    at: u32,
    rank: u8,
    /// The position in [`Dtype::ALL`].
    dtype: u8,
}

/// A tensor in such a list.
pub(crate) struct RawTensor<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: &'static Dtype,
    pub(crate) shape: &'a [u64],
    pub(crate) range: Range<u64>,
}

impl RawTensors {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Option<RawTensor<'_>> {
        let row = self.rows.get(index)?;
        let (name, at) = (row.name as usize, row.at as usize);
        Some(RawTensor {
            name: self.names.get(name..name + row.name_length as usize)?,
            dtype: Dtype::ALL.get(usize::from(row.dtype))?,
            shape: self.dims.get(at..at + usize::from(row.rank))?,
            range: row.start..row.end,
        })
    }

    /// The key by which the tensor at an index is sorted.
    pub(super) fn sort_key(&self, index: usize) -> SortKey {
        self.rows.get(index).map_or_else(SortKey::default, Row::sort_key)
    }

    /// The rows, to change their order.
    pub(super) fn rows_mut(&mut self) -> &mut [Row] {
        &mut self.rows
    }

    /// Appends a tensor. Returns whether it fits into a row.
    pub(super) fn push(&mut self, name: &str, dtype: &Dtype, shape: &[u64], range: &Range<u64>) -> bool {
        let Some(row) = self.row(name, dtype, shape, range) else { return false };
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len().max(self.names.len() / 4));
        }
        self.names.push_str(name);
        if row.at as usize == self.dims.len() {
            reserve(&mut self.dims, shape.len());
            self.dims.extend_from_slice(shape);
        }
        reserve(&mut self.rows, 1);
        self.rows.push(row);
        true
    }

    fn row(&self, name: &str, dtype: &Dtype, shape: &[u64], range: &Range<u64>) -> Option<Row> {
        let dtype = Dtype::ALL.iter().position(|known| known == dtype)?;
        let at = if self.dims.ends_with(shape) { self.dims.len() - shape.len() } else { self.dims.len() };
        Some(Row {
            start: range.start,
            end: range.end,
            name: self.names.len().try_into().ok()?,
            name_length: name.len().try_into().ok()?,
            at: at.try_into().ok()?,
            rank: shape.len().try_into().ok()?,
            dtype: dtype.try_into().ok()?,
        })
    }

    /// Reserves memory for the rest of a file, if its first `done` of `total` bytes contain the tensors so far.
    pub(super) fn reserve_for_rest(&mut self, done: u64, total: u64) {
        let rest = |length: usize, bytes: usize| {
            let rest = (length as u64).saturating_mul(total.saturating_sub(done)) / done.max(1);
            rest.saturating_add(rest / 32).min(MAX_RESERVED_BYTES / bytes as u64) as usize
        };
        self.rows.reserve_exact(rest(self.rows.len(), size_of::<Row>()));
        self.names.reserve_exact(rest(self.names.len(), 1));
    }

    /// The end of the last tensor; 0 if there is none.
    pub(super) fn data_end(&self) -> u64 {
        self.rows.iter().map(|row| row.end).max().unwrap_or(0)
    }
}

impl Row {
    pub(super) fn sort_key(&self) -> SortKey {
        (self.start, u64::from(self.end > self.start), 0)
    }
}

/// The component of a dense tensor of one raw component, without digest and attributes.
pub(super) fn raw_component(tensor: &Tensor) -> Option<&Component> {
    let [data] = tensor.components.as_slice() else { return None };
    let Component { role, dtype, range, encoding, decoded_length, max_decoded_length, digest, pages, rule, .. } = data;
    let has_more = digest.is_some() || pages.is_some() || max_decoded_length.is_some() || rule.is_some();
    let length = range.end.checked_sub(range.start);
    let is_raw = *encoding == Encoding::Raw && length.is_some() && *decoded_length == length && !has_more;
    let is_plain = tensor.layout == Layout::Dense && tensor.attributes.is_empty();
    (is_plain && is_raw && role == DATA && *dtype == tensor.dtype).then_some(data)
}

/// Reserves memory for `more` items. Grows by a quarter, since doubling would leave up to half of the memory unused.
pub(super) fn reserve<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more.max(items.len() / 4));
    }
}
