//! Codes in row-major order with a scale for each block of rows and columns: most layouts.

use super::codes::Codes;
use super::numbers::{RoundingOfMultiples, first_f32, read_scales, round, scale_bytes, words};
use crate::dtype::Dtype;
use crate::index::{Bytes, Scheme};
use std::ops::Range;
use weightstream_kernels::codes;

/// A stack of matrices of codes, with a grid of scales for each. Component 0 has the codes, component 1 the scales.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// The number of rows of a matrix. The rows of the tensor are those of all matrices.
    pub(super) rows: u64,
    pub(super) columns: u64,
    /// The size of a row of codes in bytes.
    pub(super) row_bytes: u64,
    pub(super) starts: RowStarts,
    pub(super) codes: Codes,
    pub(super) scales: Scales,
    pub(super) stack: Stack,
    /// What all scales are multiplied with.
    pub(super) factor: Factor,
    pub(super) offset: Offset,
    /// The component with the number of the group of each column. Without it, groups are the blocks of the scales.
    pub(super) group_indices: Option<usize>,
    pub(super) rounding: Rounding,
}

/// The scales of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scales {
    pub(super) dtype: Dtype,
    /// The number of rows and columns of codes that share a scale. Blocks at the end may be smaller.
    pub(super) block: [u64; 2],
    /// The number of scales of a matrix, and in one of its rows.
    pub(super) count: u64,
    pub(super) columns: u64,
}

/// The scales of several matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stack {
    /// Each matrix has its own, one after another.
    Own,
    /// All matrices have the same.
    Shared,
}

/// What scales are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Factor {
    None,
    /// The F32 in this component.
    Times(usize),
    /// Divides by the F32 in this component.
    Over(usize),
    /// Multiplies the product of code and scale.
    After(f32),
}

/// What is added to codes or values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Offset {
    None,
    /// This component has a code for each scale, whose value is subtracted from those of the codes.
    Zeros {
        part: usize,
        codes: Codes,
        rows: RowStarts,
    },
    /// This component has a float for each scale, of the dtype of the scales. Its product with the scale is subtracted
    /// from that of the code.
    FloatZeros(usize),
    /// This component has unsigned integers for each scale, which are subtracted from the codes. They are packed in
    /// words of 32 bits along the rows: one after another, or as many in a word as fit. `zero` is the code of 0.
    PackedZeros {
        part: usize,
        bits: u32,
        zero: u8,
        packing: Packing,
    },
    /// This component has a float for each scale, of the dtype of the scales, which is added to the product.
    Biases(usize),
}

/// Where rows of codes begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowStarts {
    /// At whole bytes.
    Bytes,
    /// Where the row before ends.
    Anywhere,
}

/// How integers are packed in words of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// One after another: they may cross words.
    Dense,
    /// As many as fit in a word.
    Words,
}

/// When values are rounded, before they are converted to the requested dtype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rounding {
    /// Only as F32.
    None,
    /// At the end, to this dtype.
    End(Dtype),
    /// After each operation to this dtype, but only if this dtype is requested.
    Steps(Dtype),
}

impl Offset {
    /// Whether integers of at most 8 bits are subtracted from the codes.
    fn is_integer(&self) -> bool {
        match self {
            Offset::None | Offset::PackedZeros { .. } => true,
            Offset::Zeros { codes, .. } => codes.is_integer(),
            Offset::FloatZeros(_) | Offset::Biases(_) => false,
        }
    }

    /// An I8 for each scale, which is subtracted from the codes.
    pub(super) fn of_i8(part: usize) -> Self {
        Offset::Zeros { part, codes: Codes::Elements(Dtype::I8), rows: RowStarts::Bytes }
    }
}

impl Scales {
    /// The number of rows of scales of a matrix.
    fn rows(&self) -> u64 {
        self.count.checked_div(self.columns).unwrap_or(0)
    }
}

impl Grid {
    /// Codes that are multiplied with their scales, rounded only as F32, in rows without padding.
    pub(super) fn new(rows: u64, columns: u64, codes: Codes, scales: Scales) -> Self {
        let (row_bytes, group_indices) = (codes.row_bytes(columns), None);
        let (factor, offset, rounding) = (Factor::None, Offset::None, Rounding::None);
        let (starts, stack) = (RowStarts::Bytes, Stack::Own);
        Grid { rows, columns, row_bytes, starts, codes, scales, stack, factor, offset, group_indices, rounding }
    }

    /// The position of the scales of a row of codes in the rows of all scales.
    fn scale_row(&self, row: u64) -> u64 {
        let (matrix, row) = (row / self.rows.max(1), row % self.rows.max(1));
        let matrix = if self.stack == Stack::Own { matrix } else { 0 };
        matrix.saturating_mul(self.scales.rows()).saturating_add(row / self.scales.block[0].max(1))
    }

    /// The rows of scales that these rows of codes need.
    fn scale_rows(&self, rows: &Range<u64>) -> Range<u64> {
        if self.stack == Stack::Shared {
            return 0..self.scales.rows();
        }
        let last = rows.end.saturating_sub(1).max(rows.start);
        self.scale_row(rows.start)..self.scale_row(last).saturating_add(1)
    }

    /// The words of packed zero points that these rows need.
    fn zero_words(rows: &Range<u64>, bits: u32, packing: Packing) -> Range<u64> {
        let bits = u64::from(bits);
        match packing {
            Packing::Dense => rows.start * bits / 32..(rows.end * bits).div_ceil(32),
            Packing::Words => rows.start / (32 / bits)..rows.end.div_ceil(32 / bits),
        }
    }

    /// Rounds a row, if that is done at the end.
    fn round_at_end(&self, row: &mut [f32], scales: &[f32]) {
        let Rounding::End(dtype) = &self.rounding else { return };
        match self.codes.is_integer() && self.offset.is_integer() && self.factor == Factor::None {
            true => RoundingOfMultiples::of(scales, dtype).round(row),
            false => round(row, dtype),
        }
    }

    fn read_zeros(&self, rows: &Range<u64>, row: u64, parts: &[&[u8]], out: &mut [f32]) {
        let columns = out.len();
        match self.offset {
            Offset::Zeros { part, ref codes, rows: starts } => {
                let (row, first) = (self.scale_row(row), self.scale_rows(rows).start);
                let bytes = parts.get(part).copied().unwrap_or_default();
                unpack_row(codes, starts, codes.row_bytes(columns as u64), first..row, bytes, out);
            }
            Offset::PackedZeros { part, bits, zero, packing } => {
                let bytes = parts.get(part).copied().unwrap_or_default();
                let first = Grid::zero_words(rows, bits, packing).start;
                let word = |word: u64, column: usize| {
                    let at = ((word - first) as usize * columns + column) * 4;
                    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
                };
                for (column, x) in out.iter_mut().enumerate() {
                    let code = packed(row, bits, packing, |at| word(at, column));
                    *x = f32::from(code) - f32::from(zero);
                }
            }
            Offset::None | Offset::Biases(_) | Offset::FloatZeros(_) => {}
        }
    }
}

/// The integer of a row, whose words `word` returns.
fn packed(row: u64, bits: u32, packing: Packing, word: impl Fn(u64) -> u32) -> u8 {
    let (at, shift) = match packing {
        Packing::Dense => (row * u64::from(bits) / 32, (row * u64::from(bits) % 32) as u32),
        Packing::Words => (row / u64::from(32 / bits), row as u32 % (32 / bits) * bits),
    };
    let next = if shift + bits > 32 { word(at + 1) } else { 0 };
    let value = (u64::from(word(at)) | u64::from(next) << 32) >> shift;
    (value & ((1 << bits) - 1)) as u8
}

impl Scheme for Grid {
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let row_bytes = self.row_bytes;
        let scale_rows = self.scale_rows(rows);
        let of_scales = |bytes: u64| {
            let row = self.scales.columns.saturating_mul(bytes);
            Bytes::Range(scale_rows.start.saturating_mul(row)..scale_rows.end.saturating_mul(row))
        };
        let scale = scale_bytes(&self.scales.dtype).unwrap_or(1);
        let mut needs = vec![
            Bytes::Range(range_of_rows(&self.codes, self.starts, [self.columns, row_bytes], rows)),
            of_scales(scale),
        ];
        let mut set = |part: usize, bytes: Bytes| {
            needs.resize(needs.len().max(part + 1), Bytes::Range(0..0));
            if let Some(need) = needs.get_mut(part) {
                *need = bytes;
            }
        };
        match self.factor {
            Factor::Times(part) | Factor::Over(part) => set(part, Bytes::Range(0..4)),
            Factor::None | Factor::After(_) => {}
        }
        match self.offset {
            Offset::None => {}
            Offset::Zeros { part, ref codes, rows: starts } => {
                let (columns, row_bytes) = (self.scales.columns, codes.row_bytes(self.scales.columns));
                set(part, Bytes::Range(range_of_rows(codes, starts, [columns, row_bytes], &scale_rows)));
            }
            Offset::Biases(part) | Offset::FloatZeros(part) => set(part, of_scales(scale)),
            Offset::PackedZeros { part, bits, packing, .. } => {
                let words = Grid::zero_words(rows, bits, packing);
                let row = self.scales.columns.saturating_mul(4);
                set(part, Bytes::Range(words.start.saturating_mul(row)..words.end.saturating_mul(row)));
            }
        }
        if let Some(part) = self.group_indices {
            set(part, Bytes::Range(0..self.columns.saturating_mul(4)));
        }
        needs
    }

    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], to: &Dtype, out: &mut [f32]) {
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let row_bytes = self.row_bytes;
        let (columns, groups) = (self.columns as usize, self.scales.columns as usize);
        let scale_size = scale_bytes(&self.scales.dtype).unwrap_or(1) as usize;
        let read_row = |of: usize, at: usize, floats: &mut [f32]| {
            let size = groups * scale_size;
            let bytes = part(of).get(at * size..).unwrap_or_default();
            read_scales(&self.scales.dtype, bytes.get(..size).unwrap_or(bytes), floats);
        };
        let indices: Option<Vec<usize>> =
            self.group_indices.map(|at| words(part(at)).map(|group| group as usize).collect());
        let (mut scales, mut offsets) = (vec![0.0; groups], vec![0.0; groups]);
        let first_scales = self.scale_rows(rows).start;
        let mut last_scales = None;
        let after = if let Factor::After(factor) = self.factor { Some(factor) } else { None };
        let steps = match &self.rounding {
            Rounding::Steps(dtype) if dtype == to => Some(dtype),
            _ => None,
        };
        for (row, out) in rows.clone().zip(out.chunks_exact_mut(columns.max(1))) {
            unpack_row(&self.codes, self.starts, row_bytes, rows.start..row, part(0), out);
            let scale_row = (self.scale_row(row) - first_scales) as usize;
            if last_scales.replace(scale_row) != Some(scale_row) {
                read_row(1, scale_row, &mut scales);
                match self.factor {
                    Factor::Times(factor) => scale_by(&mut scales, |x| x * first_f32(part(factor))),
                    Factor::Over(divisor) => scale_by(&mut scales, |x| x / first_f32(part(divisor))),
                    Factor::None | Factor::After(_) => {}
                }
                if let Offset::Biases(part) | Offset::FloatZeros(part) = self.offset {
                    read_row(part, scale_row, &mut offsets);
                }
            }
            self.read_zeros(rows, row, parts, &mut offsets);
            let formula = Formula { offset: &self.offset, after, steps };
            match &indices {
                Some(indices) => formula.apply_by_column(out, indices, &scales, &offsets),
                None => {
                    let blocks = out.chunks_mut(self.scales.block[1].clamp(1, self.columns.max(1)) as usize);
                    for (block, (scale, offset)) in blocks.zip(scales.iter().zip(&offsets)) {
                        formula.apply(block, *scale, *offset);
                    }
                }
            }
            self.round_at_end(out, &scales);
        }
    }
}

/// The bytes of rows of codes, with this many columns, and this many bytes if they begin at whole bytes.
fn range_of_rows(codes: &Codes, starts: RowStarts, [columns, bytes]: [u64; 2], rows: &Range<u64>) -> Range<u64> {
    let of = |size: u64| rows.start.saturating_mul(size)..rows.end.saturating_mul(size);
    match starts {
        RowStarts::Bytes => of(bytes),
        RowStarts::Anywhere => codes.flat_range(&of(columns)),
    }
}

/// Reads the row at the end of `rows`. The bytes are those from the start of these rows on.
fn unpack_row(codes: &Codes, starts: RowStarts, row_bytes: u64, rows: Range<u64>, bytes: &[u8], out: &mut [f32]) {
    let columns = out.len() as u64;
    let at = range_of_rows(codes, starts, [columns, row_bytes], &rows);
    match starts {
        RowStarts::Bytes => codes.unpack(bytes.get((at.end - at.start) as usize..).unwrap_or_default(), out),
        RowStarts::Anywhere => {
            let start = rows.end * columns;
            let first = codes.flat_range(&(start..start)).start;
            codes.unpack_flat(start, bytes.get((first - at.start) as usize..).unwrap_or_default(), out);
        }
    }
}

fn scale_by(scales: &mut [f32], change: impl Fn(f32) -> f32) {
    scales.iter_mut().for_each(|x| *x = change(*x));
}

/// How the codes of a block become values.
struct Formula<'a> {
    offset: &'a Offset,
    after: Option<f32>,
    steps: Option<&'a Dtype>,
}

impl Formula<'_> {
    /// Computes each value with the scale of its group.
    fn apply_by_column(&self, row: &mut [f32], groups: &[usize], scales: &[f32], offsets: &[f32]) {
        for (x, group) in row.iter_mut().zip(groups) {
            let scale = scales.get(*group).copied().unwrap_or_default();
            let offset = offsets.get(*group).copied().unwrap_or_default();
            self.apply(std::slice::from_mut(x), scale, offset);
        }
    }

    fn apply(&self, block: &mut [f32], scale: f32, offset: f32) {
        match (self.offset, self.after, self.steps) {
            (Offset::None, None, _) => codes::scale(block, scale),
            (Offset::None, Some(after), _) => block.iter_mut().for_each(|x| *x = *x * scale * after),
            (Offset::Zeros { .. } | Offset::PackedZeros { .. }, ..) => {
                codes::subtract_and_scale(block, offset, scale);
            }
            (Offset::FloatZeros(_), ..) => {
                codes::scale_and_add(block, scale, -(offset * scale));
            }
            (Offset::Biases(_), _, None) => codes::scale_and_add(block, scale, offset),
            (Offset::Biases(_), _, Some(dtype)) => {
                codes::scale(block, scale);
                round(block, dtype);
                block.iter_mut().for_each(|x| *x += offset);
                round(block, dtype);
            }
        }
    }
}
