//! The tensors of a file in little memory: models may have 100,000 of them.

use super::{Component, DATA, Encoding, Layout, Tensor};
use crate::dtype::Dtype;
use crate::name_index::NameIndex;
use crate::sorting::sort;
use std::ops::Range;
use std::sync::Arc;

/// Memory is released after each batch of this many tensors.
const RELEASE_BATCH_TENSORS: usize = 4096;

/// The maximum number of bytes that are reserved for what a file may still contain.
const MAX_RESERVED_BYTES: u64 = 8 << 20;

/// A list of tensors. A [`Tensor`] takes several allocations and about 400 bytes. In this list, a dense tensor of raw
/// bytes without digest and attributes takes its name and 40 bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tensors {
    rows: Vec<Row>,
    /// The names of the tensors that fit into a row, one after another.
    names: String,
    /// The shapes of these tensors. Equal shapes in sequence are stored once.
    dims: Vec<u64>,
    /// The tensors that do not fit into a row.
    others: Vec<Arc<Tensor>>,
    /// Built by [`Tensors::index_names`].
    by_name: NameIndex,
    /// The number of the file. `others` have it too.
    shard: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    /// The range of the stored bytes. For a tensor in `others`, a range that sorts like it.
    start: u64,
    end: u64,
    /// The position and length of the name in `names`.
    name: u32,
    name_length: u32,
    /// The position of the shape in `dims`, or of the tensor in `others`.
    at: u32,
    rank: u8,
    /// The position in [`Dtype::ALL`]. `None` for a tensor in `others`.
    dtype: Option<u8>,
}

/// A tensor of the list, as it is stored.
pub(crate) enum Entry<'a> {
    /// A dense tensor of one raw component, without digest and attributes.
    Raw { name: &'a str, dtype: &'static Dtype, shape: &'a [u64], range: Range<u64> },
    /// Any other tensor.
    Other(&'a Arc<Tensor>),
}

impl Tensors {
    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The tensor at an index.
    pub fn get(&self, index: usize) -> Option<Arc<Tensor>> {
        Some(match self.entry(index)? {
            Entry::Other(tensor) => Arc::clone(tensor),
            Entry::Raw { name, dtype, shape, range } => {
                let data = Component::raw(dtype.clone(), range);
                let tensor = Tensor::dense(name.to_owned(), dtype.clone(), shape.to_vec(), data);
                Arc::new(Tensor { shard: self.shard, ..tensor })
            }
        })
    }

    /// The tensors in order.
    pub fn iter(&self) -> impl Iterator<Item = Arc<Tensor>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The name of the tensor at an index; empty if there is none.
    pub fn name(&self, index: usize) -> &str {
        match self.entry(index) {
            Some(Entry::Raw { name, .. }) => name,
            Some(Entry::Other(tensor)) => &tensor.name,
            None => "",
        }
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.name(index))
    }

    /// The range of the first component of the tensor at an index; empty if there is none.
    pub(crate) fn range(&self, index: usize) -> Range<u64> {
        match self.entry(index) {
            Some(Entry::Raw { range, .. }) => range,
            Some(Entry::Other(tensor)) => tensor.components.first().map_or(0..0, |data| data.range.clone()),
            None => 0..0,
        }
    }

    pub(crate) fn entry(&self, index: usize) -> Option<Entry<'_>> {
        let row = self.rows.get(index)?;
        let (name, at) = (row.name as usize, row.at as usize);
        Some(match row.dtype.and_then(|dtype| Dtype::ALL.get(usize::from(dtype))) {
            Some(dtype) => Entry::Raw {
                name: self.names.get(name..name + row.name_length as usize)?,
                dtype,
                shape: self.dims.get(at..at + usize::from(row.rank))?,
                range: row.start..row.end,
            },
            None => Entry::Other(self.others.get(at)?),
        })
    }

    /// A copy of the tensors, each in its own allocations.
    pub fn to_vec(&self) -> Vec<Tensor> {
        self.clone().into_vec()
    }

    /// The list as a vector, with each tensor in its own allocations.
    pub(crate) fn into_vec(mut self) -> Vec<Tensor> {
        let mut others: Vec<_> = std::mem::take(&mut self.others).into_iter().map(Some).collect();
        let mut tensors = Vec::with_capacity(self.len());
        for (index, row) in self.rows.iter().enumerate() {
            let other = others.get_mut(row.at as usize).filter(|_| row.dtype.is_none()).and_then(Option::take);
            tensors.extend(other.or_else(|| self.get(index)).map(Arc::unwrap_or_clone));
        }
        tensors
    }

    /// Whether the tensor at an index is a dense tensor of one raw component, without digest and attributes.
    pub(crate) fn is_raw(&self, index: usize) -> bool {
        self.rows.get(index).is_some_and(|row| row.dtype.is_some())
    }

    /// Appends a tensor.
    pub(crate) fn push(&mut self, tensor: Tensor) {
        let is_plain = tensor.layout == Layout::Dense && tensor.attributes.is_empty();
        match tensor.components.as_slice() {
            [data] if is_plain && is_raw(data, &tensor.dtype) => {
                self.push_raw(&tensor.name, tensor.dtype, &tensor.shape, data.range.clone());
            }
            _ => self.push_other(tensor),
        }
    }

    /// Appends a dense tensor of one raw component.
    pub(crate) fn push_raw(&mut self, name: &str, dtype: Dtype, shape: &[u64], range: Range<u64>) {
        let Some(row) = self.row(name, &dtype, shape, &range) else {
            let data = Component::raw(dtype.clone(), range);
            return self.push_other(Tensor::dense(name.to_owned(), dtype, shape.to_vec(), data));
        };
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len().max(self.names.len() / 4));
        }
        self.names.push_str(name);
        if row.at as usize == self.dims.len() {
            reserve(&mut self.dims, shape.len());
            self.dims.extend_from_slice(shape);
        }
        self.push_row(row);
    }

    /// The row of a tensor that is appended; `None` if it does not fit into one.
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
            dtype: Some(dtype.try_into().ok()?),
        })
    }

    fn push_other(&mut self, tensor: Tensor) {
        let start = tensor.first_byte();
        let end = start.saturating_add(u64::from(tensor.stored_length() > 0));
        let at = self.others.len() as u32; // each takes more than 2 bytes of memory, so that there are less than 2^32
        self.others.push(Arc::new(tensor));
        self.push_row(Row { start, end, name: 0, name_length: 0, at, rank: 0, dtype: None });
    }

    fn push_row(&mut self, row: Row) {
        self.by_name = NameIndex::default();
        reserve(&mut self.rows, 1);
        self.rows.push(row);
    }

    /// Replaces a tensor by one with the same name and range.
    pub(crate) fn replace(&mut self, index: usize, tensor: Tensor) {
        let Some(row) = self.rows.get_mut(index) else { return };
        match self.others.get_mut(row.at as usize).filter(|_| row.dtype.is_none()) {
            Some(other) => *other = Arc::new(tensor),
            None => {
                (row.dtype, row.at) = (None, self.others.len() as u32);
                self.others.push(Arc::new(tensor));
            }
        }
    }

    /// Reserves memory for the rest of a file, if its first `done` of `total` bytes contain the tensors so far.
    pub(crate) fn reserve_for_rest(&mut self, done: u64, total: u64) {
        let rest = |length: usize, bytes: usize| {
            let rest = (length as u64).saturating_mul(total.saturating_sub(done)) / done.max(1);
            rest.saturating_add(rest / 32).min(MAX_RESERVED_BYTES / bytes as u64) as usize
        };
        self.rows.reserve_exact(rest(self.rows.len(), size_of::<Row>()));
        self.names.reserve_exact(rest(self.names.len(), 1));
    }

    /// Sorts the tensors into file order. At equal offsets, empty tensors come first.
    pub(crate) fn sort(&mut self) {
        self.by_name = NameIndex::default();
        sort(&mut self.rows, |row| (row.start, u64::from(row.end > row.start), 0));
    }

    /// Prepares [`Tensors::find`]. Returns a name that occurs more than once, if there is one.
    pub(crate) fn index_names(&mut self) -> Option<&str> {
        if self.by_name.len() != self.len() {
            self.by_name = NameIndex::new(self.len(), &|index| self.name(index));
        }
        self.by_name.duplicate(&|index| self.name(index))
    }

    /// The tensor of a name, after [`Tensors::index_names`].
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Tensor>> {
        self.get(self.by_name.find(name, &|index| self.name(index))?)
    }

    /// Sets the number of the file that contains the tensors, before any of them is shared.
    pub(crate) fn set_shard(&mut self, shard: usize) {
        self.shard = shard;
        self.others.iter_mut().filter_map(Arc::get_mut).for_each(|tensor| tensor.shard = shard);
    }

    /// The end of the last component.
    pub(crate) fn data_end(&self) -> u64 {
        let raw = self.rows.iter().filter(|row| row.dtype.is_some()).map(|row| row.end);
        let others = self.others.iter().flat_map(|tensor| &tensor.components).map(|component| component.range.end);
        raw.chain(others).max().unwrap_or(0)
    }
}

impl From<Vec<Tensor>> for Tensors {
    /// Moves the tensors from the last to the first. The vector shrinks on the way, so that the memory is not needed
    /// twice.
    fn from(mut tensors: Vec<Tensor>) -> Self {
        let mut compact = Tensors::default();
        compact.rows.reserve_exact(tensors.len());
        compact.others.reserve(tensors.iter().filter(|tensor| !tensor.attributes.is_empty()).count());
        while let Some(tensor) = tensors.pop() {
            compact.push(tensor);
            if tensors.len().is_multiple_of(RELEASE_BATCH_TENSORS) {
                tensors.shrink_to_fit();
            }
        }
        compact.rows.reverse();
        compact
    }
}

fn is_raw(data: &Component, of: &Dtype) -> bool {
    let Component { role, dtype, range, encoding, decoded_length, max_decoded_length, digest, pages } = data;
    let has_digest = digest.is_some() || pages.is_some() || max_decoded_length.is_some();
    let length = range.end.checked_sub(range.start);
    let is_plain = *encoding == Encoding::Raw && length.is_some() && *decoded_length == length;
    is_plain && !has_digest && role == DATA && dtype == of
}

/// Reserves memory for `more` items. Grows by a quarter, since doubling would leave up to half of the memory unused.
fn reserve<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more.max(items.len() / 4));
    }
}
