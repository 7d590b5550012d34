//! Where the stored bytes of a component that are read end.

/// The end of stored bytes that are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredEnd {
    /// The end of the component or of a block, so that the encoding must be complete.
    Complete,
    /// Any offset behind the wanted bytes.
    Anywhere,
}
