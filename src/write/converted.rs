//! What a conversion has written.

use super::Compression;
use crate::dtype::Dtype;
use std::path::PathBuf;

/// The result of [`convert`](super::convert()).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The path to open the model with: the file or the manifest.
    pub path: PathBuf,
    /// The files of tensors, in order, each with its length in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// The number of tensors in the files.
    pub tensors: usize,
    /// The total decoded size of the tensors of the input, in bytes.
    pub decoded_bytes: u64,
    /// The sizes of the tensors in the files before and after each step.
    #[doc(hidden)]
    pub sizes: Sizes,
    /// The dtypes that tensors were cast from, and the one that they were cast to; `None` if no tensor was cast.
    #[doc(hidden)]
    pub cast: Option<(Vec<Dtype>, Dtype)>,
    /// The compression that was used; [`Compression::None`] if the format has none.
    pub compression: Compression,
    /// Warnings about the conversion.
    pub warnings: Vec<String>,
}

/// The total sizes of the tensors that were written, in bytes. Bytes that tied tensors share count once if the format
/// stores them once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Decoded, in the dtypes of the input.
    pub source: u64,
    /// Decoded, in the dtypes of the files: after casts.
    pub cast: u64,
    /// As stored in the files: after compression, and with padding.
    pub stored: u64,
}
