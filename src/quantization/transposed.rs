//! The layouts of GPTQ and AWQ: matrices with the columns of the tensor as rows, packed in words of 32 bits.

use super::numbers::{RoundingOfMultiples, read_scales, scale_bytes, words};
use crate::dtype::Dtype;
use crate::index::{Bytes, Scheme};
use std::ops::Range;
use weightstream_kernels::codes;

/// Component 0 has the codes, component 1 the zero points, component 2 the scales, and component 3, if there is one,
/// the group of each column.
#[derive(Debug, Clone)]
pub(super) struct Transposed {
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) bits: u32,
    pub(super) packing: Packing,
    /// What is added to each word of zero points, modulo 2^32.
    pub(super) zero_addend: u32,
    pub(super) groups: u64,
    /// The number of columns of a group, if no component has the groups.
    pub(super) group_size: Option<u64>,
    pub(super) scales: Dtype,
}

/// Which codes a word has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Those of consecutive columns of one row, the first in the lowest bits.
    Columns,
    /// Those of 8 consecutive rows of one column, in the order of [`AWQ_SHIFTS`].
    Rows,
}

/// The number of rows that are decoded at a time, so that they stay in the processor's cache.
const BLOCK_ROWS: usize = 32;

/// The average number of columns that follow each other in one group, from which on groups are computed as a whole.
const MIN_RUN_COLUMNS: usize = 8;

/// Where a word of AWQ has the code of each of its rows.
const AWQ_SHIFTS: [u32; 8] = [0, 16, 4, 20, 8, 24, 12, 28];

/// Zero points of GPTQ are in this order, too.
fn shift_of(packing: Packing, bits: u32, row: u64) -> u32 {
    match packing {
        Packing::Columns => (row % u64::from(32 / bits)) as u32 * bits,
        Packing::Rows => AWQ_SHIFTS.get((row % 8) as usize).copied().unwrap_or_default(),
    }
}

impl Transposed {
    fn per_word(&self) -> u64 {
        u64::from(32 / self.bits)
    }

    /// The words of a stored row that the rows of the tensor need.
    fn word_columns(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start / self.per_word()..rows.end.div_ceil(self.per_word())
    }

    /// Reads the scales and zero points of the rows: for each group those of all rows.
    fn read_groups(&self, rows: &Range<u64>, zeros: &[u8], scales: &[u8]) -> (Vec<f32>, Vec<f32>) {
        let (count, groups) = ((rows.end - rows.start) as usize, self.groups as usize);
        let mut all_scales = vec![0.0; groups * count];
        read_scales(&self.scales, scales, &mut all_scales);
        let zero_words: Vec<_> = words(zeros).map(|word| word.wrapping_add(self.zero_addend)).collect();
        let columns = self.word_columns(rows);
        let row_words = (columns.end - columns.start) as usize;
        let mask = u32::MAX >> (32 - self.bits);
        let mut all_zeros = Vec::with_capacity(groups * count);
        for group in 0..groups {
            for row in rows.clone() {
                let at = group * row_words + (row / self.per_word() - columns.start) as usize;
                let word = zero_words.get(at).copied().unwrap_or_default();
                all_zeros.push((word >> shift_of(self.packing, self.bits, row) & mask) as u8 as f32);
            }
        }
        (all_scales, all_zeros)
    }

    /// Reads the codes of some of the rows that are decoded together.
    fn unpack(&self, rows: &Range<u64>, of: Range<u64>, codes: &[u8], out: &mut [f32]) {
        let words = codes.as_chunks::<4>().0;
        match self.packing {
            Packing::Columns => {
                let words = words.get((of.start - rows.start) as usize..).unwrap_or_default();
                codes::columns_of_words(self.bits, words, (rows.end - rows.start) as usize, self.columns as usize, out);
            }
            Packing::Rows => {
                let (all, own) = (self.word_columns(rows), self.word_columns(&of));
                let skipped = (of.start - own.start * self.per_word()) as usize;
                let words = words.get((own.start - all.start) as usize..).unwrap_or_default();
                let width = (all.end - all.start) as usize;
                codes::rows_of_words(&AWQ_SHIFTS, words, width, skipped, self.columns as usize, out);
            }
        }
    }

    /// The columns that follow each other in one group: the number of each, and the group.
    fn runs(&self, groups: &[u8]) -> Vec<(usize, usize)> {
        if let Some(size) = self.group_size {
            let size = size.clamp(1, self.columns.max(1));
            let starts = (0..self.columns).step_by(size as usize);
            return starts.map(|at| (size.min(self.columns - at) as usize, (at / size) as usize)).collect();
        }
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for group in words(groups) {
            match runs.last_mut() {
                Some((count, last)) if *last == group as usize => *count += 1,
                _ => runs.push((1, group as usize)),
            }
        }
        runs
    }
}

impl Scheme for Transposed {
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let of_words = self.word_columns(rows);
        let of_words = of_words.start * 4..of_words.end * 4;
        let scale = scale_bytes(&self.scales).unwrap_or(2);
        let per_word = self.per_word();
        let zeros = Bytes::Columns {
            columns: of_words.clone(),
            row_bytes: self.rows.div_ceil(per_word) * 4,
            count: self.groups,
        };
        let codes = match self.packing {
            Packing::Columns => Bytes::Columns {
                columns: rows.start * 4..rows.end * 4,
                row_bytes: self.rows * 4,
                count: self.columns / per_word,
            },
            Packing::Rows => {
                Bytes::Columns { columns: of_words, row_bytes: self.rows / per_word * 4, count: self.columns }
            }
        };
        let scales = Bytes::Columns {
            columns: rows.start * scale..rows.end * scale,
            row_bytes: self.rows * scale,
            count: self.groups,
        };
        let mut needs = vec![codes, zeros, scales];
        if self.group_size.is_none() {
            needs.push(Bytes::Range(0..self.columns * 4));
        }
        needs
    }

    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], _to: &Dtype, out: &mut [f32]) {
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let count = (rows.end - rows.start) as usize;
        let (scales, zeros) = self.read_groups(rows, part(1), part(2));
        let runs = self.runs(part(3));
        let columns = self.columns.max(1) as usize;
        // Groups of a few columns, as with `desc_act`, are faster one column at a time.
        let groups: Option<Vec<usize>> = (runs.len() > columns / MIN_RUN_COLUMNS)
            .then(|| runs.iter().flat_map(|(length, group)| std::iter::repeat_n(*group, *length)).collect());
        let rounding = RoundingOfMultiples::of(&scales, &self.scales);
        let blocks = (rows.start..).step_by(BLOCK_ROWS).zip(out.chunks_mut(columns.saturating_mul(BLOCK_ROWS)));
        for (first, out) in blocks {
            self.unpack(rows, first..first + (out.len() / columns) as u64, part(0), out);
            for (row, out) in ((first - rows.start) as usize..).zip(out.chunks_exact_mut(columns)) {
                let of_group = |group: usize| {
                    let at = group.saturating_mul(count).saturating_add(row);
                    let zero = zeros.get(at).copied().unwrap_or_default();
                    (zero, scales.get(at).copied().unwrap_or_default())
                };
                if let Some(groups) = &groups {
                    let of_groups: Vec<_> = (0..self.groups as usize).map(of_group).collect();
                    for (x, group) in out.iter_mut().zip(groups) {
                        let (zero, scale) = of_groups.get(*group).copied().unwrap_or_default();
                        *x = (*x - zero) * scale;
                    }
                    continue;
                }
                let mut rest = out;
                for (length, group) in &runs {
                    let (values, after) = std::mem::take(&mut rest).split_at_mut_checked(*length).unwrap_or_default();
                    let (zero, scale) = of_group(*group);
                    codes::subtract_and_scale(values, zero, scale);
                    rest = after;
                }
            }
            rounding.round(out);
        }
    }
}
