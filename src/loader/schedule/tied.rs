//! Tied tensors: tensors that share all their bytes in the file, such as the embedding of the input and that of the
//! output. Their bytes are read once.

use crate::error::Result;
use crate::index::{Component, Layout, Tensor};
use crate::loader::schedule::planned::PlannedTensor;
use crate::loader::{Loaded, LoadedComponent};
use crate::source::Buffer;
use std::collections::VecDeque;
use std::sync::Arc;

/// Which tensors of a plan get copies of others. Tensors are identified by their number in the plan.
#[derive(Debug, Default)]
pub(crate) struct TiedTensors {
    /// A tensor that is read, and one that gets a copy of it. Both numbers ascend.
    ties: Vec<(usize, usize)>,
}

impl TiedTensors {
    /// Finds tensors that share their bytes with tensors directly before them, as in file order. Those for which
    /// `is_separate` is true are read by themselves.
    pub(crate) fn find<B>(planned: &[PlannedTensor<B>], is_separate: impl Fn(&Tensor) -> bool) -> TiedTensors {
        let mut ties = Vec::new();
        let mut read: Option<(usize, &PlannedTensor<B>)> = None;
        for (number, tensor) in planned.iter().enumerate() {
            match read {
                _ if is_separate(&tensor.tensor) => {}
                Some((first, with)) if are_tied(with, tensor) => ties.push((first, number)),
                _ => read = Some((number, tensor)),
            }
        }
        TiedTensors { ties }
    }

    /// Whether the tensor gets a copy, and is not read.
    pub(crate) fn is_follower(&self, slot: usize) -> bool {
        self.ties.binary_search_by_key(&slot, |(_, follower)| *follower).is_ok()
    }

    /// The tensors that get a copy of a planned tensor.
    pub(crate) fn followers(&self, slot: usize) -> impl ExactSizeIterator<Item = usize> {
        let start = self.ties.partition_point(|(read, _)| *read < slot);
        let end = self.ties.partition_point(|(read, _)| *read <= slot);
        self.ties.get(start..end).unwrap_or_default().iter().map(|(_, follower)| *follower)
    }
}

/// A loaded tensor, for itself and for the tensors that are tied to it. It is copied only when the next one is taken: a
/// file may name the same bytes any number of times.
pub(crate) struct TiedLoad<B> {
    /// Labelled with the tensor that is taken next.
    loaded: Loaded<B>,
    /// The tensors after it.
    followers: VecDeque<Arc<Tensor>>,
}

impl<B: Buffer> TiedLoad<B> {
    pub(crate) fn new(loaded: Loaded<B>, followers: VecDeque<Arc<Tensor>>) -> Self {
        TiedLoad { loaded, followers }
    }

    /// Takes the next tensor. Returns also what is left, `None` after the last one, which gets the original.
    ///
    /// # Errors
    /// `LIMIT` if there is not enough memory.
    pub(crate) fn take(mut self) -> Result<(Loaded<B>, Option<Self>)> {
        let Some(next) = self.followers.pop_front() else { return Ok((self.loaded, None)) };
        let copy = self.loaded.duplicate().map_err(|e| e.in_tensor(&self.loaded.tensor.name))?;
        let is_converted = self.loaded.dtype != self.loaded.tensor.dtype;
        let with_dtype = |(loaded, part): (LoadedComponent<B>, &Component)| LoadedComponent {
            role: part.role.clone(),
            dtype: if is_converted { loaded.dtype } else { part.dtype.clone() },
            ..loaded
        };
        let components = self.loaded.components.into_iter().zip(&next.components).map(with_dtype).collect();
        let dtype = if is_converted { self.loaded.dtype } else { next.dtype.clone() };
        self.loaded = Loaded { dtype, shape: next.shape.clone(), components, tensor: next, ..self.loaded };
        Ok((copy, Some(self)))
    }
}

/// Whether two tensors have the same bytes, and the same digests. The indices of sparse tensors are checked against the
/// shape, so these are read separately. The same bytes of two dtypes are converted to different ones.
fn are_tied<B>(one: &PlannedTensor<B>, other: &PlannedTensor<B>) -> bool {
    let is_converted = one.conversion.is_some() || other.conversion.is_some();
    let (conversions, (one, other)) = ((&one.conversion, &other.conversion), (&one.tensor, &other.tensor));
    if is_converted && (conversions.0 != conversions.1 || one.dtype != other.dtype) {
        return false;
    }
    let are_dense = one.layout == Layout::Dense && other.layout == Layout::Dense;
    let mut components = one.components.iter().zip(&other.components);
    are_dense
        && one.shares_bytes_with(other)
        && components.all(|(a, b)| a.digest == b.digest && a.pages == b.pages && a.rule == b.rule)
}
