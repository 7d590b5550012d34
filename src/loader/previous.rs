//! The previous revision of a published model, as a caller provides it.

use crate::error::Result;

/// The tensors of a revision that was loaded earlier.
pub trait PreviousTensors: std::fmt::Debug {
    /// Whether there is a tensor with this name.
    fn has(&self, name: &str) -> bool;

    /// The dense bytes of a tensor.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is no tensor with this name, or if it has several components; errors of reading it.
    fn dense(&self, name: &str) -> Result<Vec<u8>>;
}
