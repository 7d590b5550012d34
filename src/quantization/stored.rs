//! The tensors of a file, as the methods look them up.

use super::config::Stated;
use crate::dtype::{Dtype, element_count};
use crate::index::{Encoding, Entry, Index, Layout, StatedQuantization, Tensor, matrix_of};
use std::collections::HashMap;
use std::ops::Range;

/// The contents of small tensors that state how others are quantized, by name.
pub(crate) type Contents = HashMap<String, Vec<u8>>;

/// The files of a model, and what is known beside their indexes.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) files: &'a [Index],
    pub(super) config: Option<&'a Stated>,
    pub(super) contents: &'a Contents,
}

/// Where a tensor is: the number of the file, and its position in the index of the file.
pub(super) type Position = (usize, usize);

/// A tensor of a file.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: &'a Dtype,
    pub(super) shape: &'a [u64],
    pub(super) range: Range<u64>,
    pub(super) at: Position,
}

impl<'a> Stored<'a> {
    /// The tensor of that name.
    pub(super) fn get(&self, name: &str) -> Option<Part<'a>> {
        self.at(self.position(name)?)
    }

    /// Where the tensor of that name is.
    pub(super) fn position(&self, name: &str) -> Option<Position> {
        let find = |(file, index): (usize, &Index)| Some((file, index.tensors.position(name)?));
        self.files.iter().enumerate().find_map(find)
    }

    /// The positions of all tensors.
    pub(super) fn positions(&self) -> impl Iterator<Item = Position> + use<'a> {
        let files = self.files.iter().enumerate();
        files.flat_map(|(file, index)| (0..index.tensors.len()).map(move |at| (file, at)))
    }

    /// The tensor at a position, if it is dense, with raw bytes.
    pub(super) fn at(&self, at: Position) -> Option<Part<'a>> {
        match self.files.get(at.0)?.tensors.entry(at.1)? {
            Entry::Raw(raw) => Some(Part { name: raw.name, dtype: raw.dtype, shape: raw.shape, range: raw.range, at }),
            Entry::Other(tensor) => match tensor.components.as_slice() {
                // Such as one with a dtype whose elements have no whole bytes.
                [data] if tensor.layout == Layout::Dense && data.encoding == Encoding::Raw => {
                    let Tensor { name, dtype, shape, .. } = &**tensor;
                    Some(Part { name, dtype, shape, range: data.range.clone(), at })
                }
                _ => None,
            },
        }
    }

    /// The tensor of that name, if its only component is stored as varints.
    #[cfg(feature = "onnx")]
    pub(super) fn of_varints(&self, name: &str) -> Option<(Part<'a>, &'a crate::index::Component)> {
        let at = self.position(name)?;
        let Tensor { name, dtype, shape, components, .. } = self.other(at)?;
        match components.as_slice() {
            [data] if data.encoding == Encoding::Varint => {
                Some((Part { name, dtype, shape, range: data.range.clone(), at }, data))
            }
            _ => None,
        }
    }

    /// How the files describe their quantized tensors, if they do.
    pub(super) fn stated(&self) -> Option<&'a StatedQuantization> {
        self.files.iter().find_map(|index| index.quantized.as_ref())
    }

    /// The tensor at a position, if it has attributes or is not raw.
    pub(super) fn other(&self, at: Position) -> Option<&'a Tensor> {
        match self.files.get(at.0)?.tensors.entry(at.1)? {
            Entry::Other(tensor) => Some(tensor),
            Entry::Raw(_) => None,
        }
    }

    /// The bytes of a small tensor that [`super::contents_to_read`] listed.
    pub(super) fn content(&self, name: &str) -> Option<&'a [u8]> {
        self.contents.get(name).map(Vec::as_slice)
    }

    /// The integers of a small tensor of I64, I32 or U8.
    pub(super) fn integers(&self, name: &str) -> Option<Vec<i64>> {
        let (part, bytes) = (self.get(name)?, self.content(name)?);
        Some(match part.dtype {
            Dtype::I64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
            Dtype::I32 => bytes.as_chunks().0.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes))).collect(),
            Dtype::U8 => bytes.iter().map(|byte| i64::from(*byte)).collect(),
            _ => return None,
        })
    }
}

impl Part<'_> {
    pub(super) fn is(&self, dtypes: &[Dtype]) -> bool {
        dtypes.contains(self.dtype)
    }

    /// The number of rows and columns of the tensor as a matrix; `None` for a scalar.
    pub(super) fn matrix(&self) -> Option<[u64; 2]> {
        matrix_of(self.shape).ok().filter(|_| !self.shape.is_empty())
    }

    pub(super) fn byte_length(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(super) fn elements(&self) -> u64 {
        element_count(self.shape).unwrap_or(u64::MAX)
    }
}
