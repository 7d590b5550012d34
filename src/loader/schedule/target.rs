//! What the bytes of a request are for.

use crate::error::{Error, ErrorKind};

/// A component of a planned tensor, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    /// The index of the tensor in the batch.
    pub(crate) slot: usize,
    /// The index of the component in the tensor.
    pub(crate) component: usize,
}

impl Target {
    /// Whether one connection should read both: memory is reserved for a tensor as a whole.
    pub(crate) fn is_in_same_tensor(&self, other: &Self) -> bool {
        self.slot == other.slot
    }
}

pub(crate) fn unplanned() -> Error {
    Error::new(ErrorKind::Internal, "a tensor arrived that was not planned")
}
