//! Codes whose bytes each have an element of several blocks of rows, as HQQ packs them.

use super::numbers::{read_scales, round, scale_bytes};
use crate::dtype::Dtype;
use crate::index::{Bytes, Scheme};
use std::ops::Range;

/// The elements of the tensor in row-major order, as a matrix of other dimensions. The codes of the first block of rows
/// are in the highest bits. Component 0 has the codes,
/// component 1 the scales, component 2 the offsets, as floats of the same dtype.
#[derive(Debug, Clone)]
pub(super) struct RowBlocks {
    /// The number of columns of the tensor.
    pub(super) columns: u64,
    /// The number of rows and columns of the matrix.
    pub(super) matrix: [u64; 2],
    pub(super) bits: u32,
    /// The size of a packed element in bytes, and the number of codes in it.
    pub(super) word_bytes: u64,
    pub(super) per_word: u64,
    pub(super) scale_of: ScaleOf,
    pub(super) dtype: Dtype,
}

/// What the matrix has a scale and an offset for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScaleOf {
    Row,
    Column,
}

impl RowBlocks {
    /// The number of rows of packed elements.
    pub(super) fn packed_rows(&self) -> u64 {
        self.matrix[0].div_ceil(self.per_word)
    }

    /// The rows of the matrix that have elements of these rows of the tensor.
    fn matrix_rows(&self, rows: &Range<u64>) -> Range<u64> {
        let width = self.matrix[1].max(1);
        rows.start * self.columns / width..(rows.end * self.columns).div_ceil(width)
    }

    /// The rows of packed elements that these rows of the matrix need: all, if they are in several blocks.
    fn packed_range(&self, rows: &Range<u64>) -> Range<u64> {
        let packed = self.packed_rows().max(1);
        let last = rows.end.saturating_sub(1).max(rows.start);
        match rows.start / packed == last / packed {
            true => rows.start % packed..last % packed + 1,
            false => 0..packed,
        }
    }

    fn shift(&self, block: u64) -> u32 {
        let block = block.min(self.per_word - 1) as u32;
        (self.per_word as u32 - 1 - block) * self.bits
    }
}

impl Scheme for RowBlocks {
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let rows = self.matrix_rows(rows);
        let packed = self.packed_range(&rows);
        let row = self.matrix[1] * self.word_bytes;
        let scale = scale_bytes(&self.dtype).unwrap_or(2);
        let scales = match self.scale_of {
            ScaleOf::Row => rows.start * scale..rows.end * scale,
            ScaleOf::Column => 0..self.matrix[1] * scale,
        };
        vec![Bytes::Range(packed.start * row..packed.end * row), Bytes::Range(scales.clone()), Bytes::Range(scales)]
    }

    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], _to: &Dtype, out: &mut [f32]) {
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let size = scale_bytes(&self.dtype).unwrap_or(2) as usize;
        let read = |bytes: &[u8]| {
            let mut floats = vec![0.0; bytes.len() / size];
            read_scales(&self.dtype, bytes, &mut floats);
            floats
        };
        let (scales, offsets) = (read(part(1)), read(part(2)));
        let matrix_rows = self.matrix_rows(rows);
        let packed = self.packed_range(&matrix_rows);
        let (width, packed_rows) = (self.matrix[1].max(1), self.packed_rows().max(1));
        let mask = u32::MAX >> (32 - self.bits);
        let first_element = rows.start * self.columns;
        let word_bytes = self.word_bytes as usize;
        for (element, x) in (first_element..).zip(out.iter_mut()) {
            let (row, column) = (element / width, element % width);
            let at = ((row % packed_rows - packed.start) * width + column) as usize * word_bytes;
            let mut word = [0; 4];
            let bytes = part(0).get(at..).unwrap_or_default().iter().take(word_bytes);
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            let code = u32::from_le_bytes(word) >> self.shift(row / packed_rows) & mask;
            let at = match self.scale_of {
                ScaleOf::Row => (row - matrix_rows.start) as usize,
                ScaleOf::Column => column as usize,
            };
            let scale = scales.get(at).copied().unwrap_or_default();
            let offset = offsets.get(at).copied().unwrap_or_default();
            let rounded = |value: f32| {
                let mut value = [value];
                round(&mut value, &self.dtype);
                let [value] = value;
                value
            };
            *x = rounded(rounded(code as f32 - offset) * scale);
        }
    }
}
