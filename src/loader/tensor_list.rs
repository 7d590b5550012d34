//! The tensors of a model in one list.

use crate::index::{Tensor, Tensors};
use crate::loader::shard::OpenShard;
use std::rc::Rc;
use std::sync::Arc;

/// The tensors of a model, in file order. Tensors are created when they are accessed, from an index that takes less
/// memory. The items are equal, but not the same objects, at each access.
#[derive(Clone, Default)]
pub struct TensorList {
    files: Vec<Rc<OpenShard>>,
}

impl TensorList {
    pub(super) fn new(files: Vec<Rc<OpenShard>>) -> Self {
        TensorList { files }
    }

    /// The heads of the files.
    pub(super) fn files(&self) -> &[Rc<OpenShard>] {
        &self.files
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.parts().map(Tensors::len).sum()
    }

    /// Whether the model has no tensors.
    pub fn is_empty(&self) -> bool {
        self.parts().all(Tensors::is_empty)
    }

    /// The tensors in file order.
    pub fn iter(&self) -> TensorListIter {
        self.clone().into_iter()
    }

    /// The names in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts().flat_map(Tensors::names)
    }

    /// All tensors. A model of 100,000 tensors takes about 40 MB in this form.
    pub fn to_vec(&self) -> Vec<Arc<Tensor>> {
        let mut tensors = Vec::with_capacity(self.len());
        for part in self.parts() {
            for index in 0..part.len() {
                tensors.extend(part.get(index));
            }
        }
        tensors
    }

    /// The tensors of each file.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Tensors> {
        self.files.iter().map(|open| &open.index.tensors)
    }
}

impl IntoIterator for TensorList {
    type Item = Arc<Tensor>;
    type IntoIter = TensorListIter;

    fn into_iter(self) -> TensorListIter {
        TensorListIter { list: self, file: 0, next: 0 }
    }
}

impl IntoIterator for &TensorList {
    type Item = Arc<Tensor>;
    type IntoIter = TensorListIter;

    fn into_iter(self) -> TensorListIter {
        self.iter()
    }
}

impl std::fmt::Debug for TensorList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The iterator of a [`TensorList`].
#[derive(Debug)]
pub struct TensorListIter {
    list: TensorList,
    file: usize,
    next: usize,
}

impl Iterator for TensorListIter {
    type Item = Arc<Tensor>;

    fn next(&mut self) -> Option<Arc<Tensor>> {
        while let Some(open) = self.list.files.get(self.file) {
            if let Some(tensor) = open.index.tensors.get(self.next) {
                self.next += 1;
                return Some(tensor);
            }
            (self.file, self.next) = (self.file + 1, 0);
        }
        None
    }
}
