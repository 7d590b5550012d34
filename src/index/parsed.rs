//! What parsers return.

use super::split::Split;
use super::{Component, DataFile, Index, Manifest};

/// The result of parsing a file.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// A file of tensors.
    File(Index),
    /// A file of tensors that states which part of a model it is.
    Part(Index, Split),
    /// A manifest that names files of tensors.
    Manifest(Manifest),
    /// A file of tensors that names files of raw bytes, which contain further tensors.
    WithData(Index, Vec<DataFile>),
    /// A file that is compressed as a whole: this component decodes to the file that is read instead.
    Packed(Component),
}
