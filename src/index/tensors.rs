//! The tensors of a file in little memory: models may have 100,000 of them.

use super::raw_tensors::{RawTensor, RawTensors, Row, raw_component, reserve};
use super::{Component, Tensor};
use crate::dtype::Dtype;
use crate::name_index::NameIndex;
use crate::sorting::{SortKey, sort};
use std::ops::Range;
use std::sync::Arc;

/// Memory is released after each batch of this many tensors.
const RELEASE_BATCH_TENSORS: usize = 4096;

/// Set in the order of a list for the tensors in `others`. No file within the limits has 2^31 tensors.
const IS_OTHER: u32 = 1 << 31;

/// A list of tensors. A [`Tensor`] takes several allocations and about 400 bytes. In this list, a dense tensor of raw
/// bytes without digest and attributes takes its name and 40 bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tensors {
    raw: RawTensors,
    /// The tensors that do not fit into `raw`.
    others: Vec<Arc<Tensor>>,
    /// The position of each tensor in `raw`, or in `others` if [`IS_OTHER`] is set. Empty if one of the lists contains
    /// all tensors, in order.
    order: Vec<u32>,
    /// Built by [`Tensors::index_names`].
    by_name: NameIndex,
    /// The number of the file. `others` have it too.
    shard: usize,
}

/// A tensor of the list, as it is stored.
pub(crate) enum Entry<'a> {
    /// A dense tensor of one raw component, without digest and attributes.
    Raw(RawTensor<'a>),
    /// Any other tensor.
    Other(&'a Arc<Tensor>),
}

impl Tensors {
    /// The number of tensors.
    pub fn len(&self) -> usize {
        if self.order.is_empty() { self.raw.len() + self.others.len() } else { self.order.len() }
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor at an index.
    pub fn get(&self, index: usize) -> Option<Arc<Tensor>> {
        Some(match self.entry(index)? {
            Entry::Other(tensor) => Arc::clone(tensor),
            Entry::Raw(RawTensor { name, dtype, shape, range }) => {
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
            Some(Entry::Raw(tensor)) => tensor.name,
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
            Some(Entry::Raw(tensor)) => tensor.range,
            Some(Entry::Other(tensor)) => tensor.components.first().map_or(0..0, |data| data.range.clone()),
            None => 0..0,
        }
    }

    pub(crate) fn entry(&self, index: usize) -> Option<Entry<'_>> {
        match self.other_at(index) {
            Some(other) => self.others.get(other).map(Entry::Other),
            None => self.raw.get(self.order.get(index).map_or(index, |at| *at as usize)).map(Entry::Raw),
        }
    }

    /// The position in `others` of the tensor at an index; `None` for one in `raw`.
    fn other_at(&self, index: usize) -> Option<usize> {
        match self.order.get(index) {
            Some(at) => (at & IS_OTHER != 0).then_some((at & !IS_OTHER) as usize),
            None => self.raw.is_empty().then_some(index),
        }
    }

    /// A copy of the tensors, each in its own allocations.
    pub fn to_vec(&self) -> Vec<Tensor> {
        self.clone().into_vec()
    }

    /// The list as a vector, with each tensor in its own allocations.
    pub(crate) fn into_vec(mut self) -> Vec<Tensor> {
        let mut tensors = Vec::with_capacity(self.len());
        let mut others: Vec<_> = std::mem::take(&mut self.others).into_iter().map(Some).collect();
        for index in 0..tensors.capacity() {
            let tensor = match self.other_at(index) {
                Some(other) => others.get_mut(other).and_then(Option::take),
                None => self.get(index),
            };
            tensors.extend(tensor.map(Arc::unwrap_or_clone));
        }
        tensors
    }

    /// Whether the tensor at an index is a dense tensor of one raw component, without digest and attributes.
    pub(crate) fn is_raw(&self, index: usize) -> bool {
        matches!(self.entry(index), Some(Entry::Raw(_)))
    }

    /// Appends a tensor.
    pub(crate) fn push(&mut self, tensor: Tensor) {
        match raw_component(&tensor).map(|data| data.range.clone()) {
            Some(range) => self.push_raw(&tensor.name, tensor.dtype, &tensor.shape, range),
            None => self.push_other(tensor),
        }
    }

    /// Appends a dense tensor of one raw component.
    pub(crate) fn push_raw(&mut self, name: &str, dtype: Dtype, shape: &[u64], range: Range<u64>) {
        let at = self.raw.len() as u32;
        if self.raw.push(name, &dtype, shape, &range) {
            self.append(at, 0, self.others.len());
        } else {
            let data = Component::raw(dtype.clone(), range);
            self.push_other(Tensor::dense(name.to_owned(), dtype, shape.to_vec(), data));
        }
    }

    fn push_other(&mut self, tensor: Tensor) {
        let at = self.others.len() as u32;
        reserve(&mut self.others, 1);
        self.others.push(Arc::new(tensor));
        self.append(at, IS_OTHER, self.raw.len());
    }

    /// Appends a new tensor of one kind to the order, if there are tensors of the other kind.
    fn append(&mut self, at: u32, kind: u32, others: usize) {
        self.by_name = NameIndex::default();
        if others > 0 {
            if self.order.is_empty() {
                self.order = (0..others as u32).map(|at| at | kind ^ IS_OTHER).collect();
            }
            reserve(&mut self.order, 1);
            self.order.push(at | kind);
        }
    }

    /// Replaces a tensor by one with the same name and range.
    pub(crate) fn replace(&mut self, index: usize, tensor: Tensor) {
        if index >= self.len() {
            return;
        }
        if let Some(other) = self.other_at(index).and_then(|at| self.others.get_mut(at)) {
            *other = Arc::new(tensor);
            return;
        }
        if self.order.is_empty() {
            self.order = (0..self.raw.len() as u32).collect();
        }
        if let Some(at) = self.order.get_mut(index) {
            *at = self.others.len() as u32 | IS_OTHER;
            self.others.push(Arc::new(tensor));
        }
    }

    /// Reserves memory for the rest of a file, if its first `done` of `total` bytes contain the tensors so far.
    pub(crate) fn reserve_for_rest(&mut self, done: u64, total: u64) {
        self.raw.reserve_for_rest(done, total);
    }

    /// Sorts the tensors into file order. At equal offsets, empty tensors come first.
    pub(crate) fn sort(&mut self) {
        self.by_name = NameIndex::default();
        let Tensors { raw, others, order, .. } = self;
        if order.is_empty() {
            sort(raw.rows_mut(), Row::sort_key);
            sort(others, sort_key);
        } else {
            sort(order, |at| match at & IS_OTHER {
                0 => raw.sort_key(*at as usize),
                _ => others.get((at & !IS_OTHER) as usize).map_or_else(SortKey::default, sort_key),
            });
        }
    }

    /// Prepares [`Tensors::find`]. Returns a name that occurs more than once, if there is one.
    pub(crate) fn index_names(&mut self) -> Option<&str> {
        if self.by_name.len() != self.len() {
            self.by_name = NameIndex::new(self.len(), &|index| self.name(index));
        }
        self.by_name.duplicate(&|index| self.name(index))
    }

    /// The index of the tensor of a name, after [`Tensors::index_names`].
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.find(name, &|index| self.name(index))
    }

    /// The tensor of a name, after [`Tensors::index_names`].
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Tensor>> {
        self.get(self.position(name)?)
    }

    /// Sets the number of the file that contains the tensors, before any of them is shared.
    pub(crate) fn set_shard(&mut self, shard: usize) {
        self.shard = shard;
        self.others.iter_mut().filter_map(Arc::get_mut).for_each(|tensor| tensor.shard = shard);
    }

    /// The end of the last component.
    pub(crate) fn data_end(&self) -> u64 {
        let others = self.others.iter().flat_map(|tensor| &tensor.components).map(|component| component.range.end);
        others.fold(self.raw.data_end(), u64::max)
    }
}

impl From<Vec<Tensor>> for Tensors {
    /// Moves the tensors from the last to the first. The vector shrinks and the list grows on the way, so that the
    /// memory is not needed twice.
    fn from(mut tensors: Vec<Tensor>) -> Self {
        let mut compact = Tensors::default();
        while let Some(tensor) = tensors.pop() {
            compact.push(tensor);
            if tensors.len().is_multiple_of(RELEASE_BATCH_TENSORS) {
                tensors.shrink_to_fit();
            }
        }
        if compact.order.is_empty() {
            compact.raw.rows_mut().reverse();
            compact.others.reverse();
        } else {
            compact.order.reverse();
        }
        compact
    }
}

fn sort_key(tensor: &Arc<Tensor>) -> SortKey {
    (tensor.first_byte(), u64::from(tensor.stored_length() > 0), 0)
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensor(at: usize, start: u64, is_other: bool) -> Tensor {
        let data = Component::raw(Dtype::U8, start..start + at as u64 % 3);
        let mut tensor = Tensor::dense(at.to_string(), Dtype::U8, vec![at as u64 % 3], data);
        if is_other {
            tensor.attributes.insert("key".to_owned(), at.into());
        }
        tensor
    }

    proptest! {
        #[test]
        fn contains_the_same_tensors_in_the_same_order_as_a_vector(
            items in proptest::collection::vec((0u64..20, any::<bool>()), 0..12), replaced in 0usize..12, all: bool,
        ) {
            let make = |(at, (start, is_other)): (usize, &(u64, bool))| tensor(at, *start, *is_other && !all);
            let written: Vec<_> = items.iter().enumerate().map(make).collect();
            let mut pushed = Tensors::default();
            written.iter().for_each(|tensor| pushed.push(tensor.clone()));
            for mut list in [pushed, Tensors::from(written.clone())] {
                let mut expected = written.clone();
                prop_assert_eq!(list.to_vec(), expected.clone());
                if let Some(old) = expected.get_mut(replaced) {
                    old.attributes.insert("digest".to_owned(), true.into());
                    list.replace(replaced, old.clone());
                }
                prop_assert_eq!(list.data_end(), expected.iter().map(|t| t.components[0].range.end).max().unwrap_or(0));
                let mut sorted = expected.clone();
                sorted.sort_by_key(|tensor| (tensor.first_byte(), tensor.stored_length() > 0));
                list.sort();
                prop_assert_eq!(list.names().collect::<Vec<_>>(), sorted.iter().map(|t| &t.name).collect::<Vec<_>>());
                prop_assert_eq!(list.index_names(), None);
                prop_assert!(sorted.iter().all(|tensor| list.find(&tensor.name).as_deref() == Some(tensor)));
                prop_assert_eq!(list.into_vec(), sorted);
            }
        }
    }
}
