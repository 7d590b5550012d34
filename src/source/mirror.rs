//! What is reported of an address of a model.

/// An address of a model: the URL that was opened, or a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mirror {
    /// The URL.
    pub url: String,
    /// The number of bytes that it has sent, of all files of the model. Some of them may have been dropped, because
    /// another address was faster.
    pub byte_length: u64,
    /// Why the address, or a file at it, is not used; `None` if it works, or was not needed.
    pub failure: Option<String>,
}
