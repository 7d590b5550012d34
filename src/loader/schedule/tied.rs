//! Tied tensors: tensors that share all their bytes in the file, such as the embedding of the input and that of the
//! output. Their bytes are read once.

use crate::error::Result;
use crate::index::{Component, Layout, Tensor};
use crate::loader::{Loaded, LoadedComponent};
use crate::source::Buffer;
use std::rc::Rc;

/// Which tensors of a plan get copies of others. Tensors are identified by their number in the plan.
#[derive(Debug, Default)]
pub(crate) struct TiedTensors {
    /// A tensor that is read, and one that gets a copy of it. Both numbers ascend.
    ties: Vec<(usize, usize)>,
}

impl TiedTensors {
    /// Finds tensors that share their bytes with tensors directly before them, as in file order. Those for which
    /// `is_separate` is true are read by themselves.
    pub(crate) fn find(tensors: &[Rc<Tensor>], is_separate: impl Fn(&Tensor) -> bool) -> TiedTensors {
        let mut ties = Vec::new();
        let mut read: Option<(usize, &Tensor)> = None;
        for (number, tensor) in tensors.iter().enumerate() {
            match read {
                _ if is_separate(tensor) => {}
                Some((first, with)) if are_tied(with, tensor) => ties.push((first, number)),
                _ => read = Some((number, tensor)),
            }
        }
        TiedTensors { ties }
    }

    /// Whether the tensor gets a copy, and is not read.
    pub(crate) fn is_follower(&self, planned: usize) -> bool {
        self.ties.binary_search_by_key(&planned, |(_, follower)| *follower).is_ok()
    }

    /// The tensors that get a copy of a planned tensor.
    pub(crate) fn followers(&self, planned: usize) -> impl ExactSizeIterator<Item = usize> {
        let start = self.ties.partition_point(|(read, _)| *read < planned);
        let end = self.ties.partition_point(|(read, _)| *read <= planned);
        self.ties.get(start..end).unwrap_or_default().iter().map(|(_, follower)| *follower)
    }
}

/// Copies a loaded tensor for a tensor that is tied to it.
///
/// # Errors
/// `LIMIT` if there is not enough memory.
pub(crate) fn copy<B: Buffer>(loaded: &Loaded<B>, tensor: Rc<Tensor>) -> Result<Loaded<B>> {
    let copy = |(part, loaded): (&Component, &LoadedComponent<B>)| {
        let buffer = loaded.buffer.duplicate()?;
        Ok(LoadedComponent { role: part.role.clone(), dtype: part.dtype.clone(), buffer })
    };
    let components = tensor.components.iter().zip(&loaded.components).map(copy).collect::<Result<_>>();
    let components = components.map_err(|e| e.in_tensor(&tensor.name))?;
    Ok(Loaded { shape: tensor.shape.clone(), components, verified: loaded.verified, tensor })
}

/// Whether two tensors have the same bytes, and the same digests. The indices of sparse tensors are checked against the
/// shape, so these are read separately.
fn are_tied(one: &Tensor, other: &Tensor) -> bool {
    let are_dense = one.layout == Layout::Dense && other.layout == Layout::Dense;
    let mut components = one.components.iter().zip(&other.components);
    are_dense && one.shares_bytes_with(other) && components.all(|(a, b)| a.digest == b.digest && a.pages == b.pages)
}
