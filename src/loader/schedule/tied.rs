//! Tied tensors: tensors that share all their bytes in the file, such as the embedding of the input and that of the
//! output. Their bytes are read once.

use crate::error::Result;
use crate::index::{Component, Tensor};
use crate::loader::{Loaded, LoadedComponent};
use crate::source::Buffer;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Which tensors of a plan get copies of others. Tensors are identified by their number in the plan.
#[derive(Debug, Default)]
pub(crate) struct TiedTensors {
    /// The tensors that get a copy of a tensor that is read.
    followers: HashMap<usize, Vec<usize>>,
    /// All of them.
    not_read: HashSet<usize>,
}

impl TiedTensors {
    /// Finds tensors that share their bytes. Those for which `is_separate` is true are read by themselves.
    pub(crate) fn find(tensors: &[Rc<Tensor>], is_separate: impl Fn(&Tensor) -> bool) -> TiedTensors {
        let mut order: Vec<_> = tensors.iter().enumerate().collect();
        if !order.is_sorted_by_key(|(_, tensor)| place(tensor)) {
            order.sort_by_key(|(_, tensor)| place(tensor));
        }
        let mut tied = TiedTensors::default();
        let mut read: Option<(usize, &Tensor)> = None;
        for (number, tensor) in order.into_iter().filter(|(_, tensor)| !is_separate(tensor)) {
            match read {
                Some((first, with)) if are_tied(with, tensor) => {
                    tied.followers.entry(first).or_default().push(number);
                    tied.not_read.insert(number);
                }
                _ => read = Some((number, tensor)),
            }
        }
        tied
    }

    /// Whether the tensor gets a copy, and is not read.
    pub(crate) fn is_follower(&self, planned: usize) -> bool {
        self.not_read.contains(&planned)
    }

    /// The tensors that get a copy of a planned tensor.
    pub(crate) fn followers(&self, planned: usize) -> &[usize] {
        self.followers.get(&planned).map(Vec::as_slice).unwrap_or_default()
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

fn place(tensor: &Tensor) -> (usize, u64, u64) {
    (tensor.shard, tensor.first_byte(), tensor.stored_length())
}

/// Whether two tensors have the same bytes, and the same digests.
fn are_tied(one: &Tensor, other: &Tensor) -> bool {
    let mut components = one.components.iter().zip(&other.components);
    one.shares_bytes_with(other) && components.all(|(a, b)| a.digest == b.digest && a.pages == b.pages)
}
