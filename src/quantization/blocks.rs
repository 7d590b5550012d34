//! 4-bit codes of bitsandbytes: numbers in a table of 16 values, with a scale for each block of the flat tensor.

use super::numbers::{first_f32, round};
use crate::dtype::Dtype;
use crate::index::{Bytes, Scheme};
use std::ops::Range;
use weightstream_kernels::codes::{self, First};

/// Component 0 has the codes, component 1 the scales, component 2 the table of values. If the scales are quantized
/// themselves, component 3 has their scales, and component 4 the table of their values.
#[derive(Debug, Clone)]
pub(super) struct TableBlocks {
    pub(super) columns: u64,
    pub(super) block: u64,
    pub(super) nested: Option<NestedScales>,
    /// Whether code 8 is the negative zero: the kernels of FP4 take the sign from the code, not from the table.
    pub(super) sign: SignOfZero,
    /// The dtype that values are rounded to.
    pub(super) dtype: Dtype,
}

/// The sign of the second zero of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignOfZero {
    Stored,
    OfCode8,
}

/// Scales that are quantized themselves, with one byte each.
#[derive(Debug, Clone, Copy)]
pub(super) struct NestedScales {
    pub(super) block: u64,
    pub(super) offset: f32,
}

impl TableBlocks {
    fn elements_of(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start * self.columns..rows.end * self.columns
    }

    fn blocks_of(&self, rows: &Range<u64>) -> Range<u64> {
        let elements = self.elements_of(rows);
        elements.start / self.block..elements.end.div_ceil(self.block)
    }

    fn read_scales(&self, rows: &Range<u64>, parts: &[&[u8]]) -> Vec<f32> {
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let Some(NestedScales { block, offset }) = self.nested else { return floats(part(1)) };
        let blocks = self.blocks_of(rows);
        let (scales, table) = (floats(part(3)), floats(part(4)));
        let first = blocks.start / block;
        let value = |(at, code): (u64, &u8)| {
            let scale = scales.get((at / block - first) as usize).copied().unwrap_or_default();
            table.get(usize::from(*code)).copied().unwrap_or_default() * scale + offset
        };
        (blocks.start..).zip(part(1)).map(value).collect()
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(first_f32).collect()
}

impl Scheme for TableBlocks {
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let (elements, blocks) = (self.elements_of(rows), self.blocks_of(rows));
        let codes = Bytes::Range(elements.start / 2..elements.end.div_ceil(2));
        let table = Bytes::Range(0..64);
        match self.nested {
            None => vec![codes, Bytes::Range(blocks.start * 4..blocks.end * 4), table],
            Some(NestedScales { block, .. }) => {
                let outer = blocks.start / block * 4..blocks.end.div_ceil(block) * 4;
                vec![codes, Bytes::Range(blocks), table, Bytes::Range(outer), Bytes::Range(0..1024)]
            }
        }
    }

    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], _to: &Dtype, out: &mut [f32]) {
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let table: [f32; 16] = {
            let mut values = [0.0; 16];
            values.iter_mut().zip(floats(part(2))).for_each(|(to, from)| *to = from);
            if let (SignOfZero::OfCode8, [.., x, _, _, _, _, _, _, _]) = (self.sign, &mut values)
                && *x == 0.0
            {
                *x = -0.0;
            }
            values
        };
        let scales = self.read_scales(rows, parts);
        let elements = self.elements_of(rows);
        let (codes, first_byte) = (part(0), elements.start / 2);
        let code = |element: u64| {
            let byte = codes.get((element / 2 - first_byte) as usize).copied().unwrap_or_default();
            if element.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
        };
        let mut scales = scales.into_iter();
        let (mut at, mut done) = (elements.start, 0);
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let length = (self.block - at % self.block).min(rest.len() as u64) as usize;
            let block = rest.get_mut(..length).unwrap_or_default();
            let mut values = table;
            codes::scale(&mut values, scales.next().unwrap_or_default());
            round(&mut values, &self.dtype);
            if at.is_multiple_of(2) {
                let bytes = codes.get((at / 2 - first_byte) as usize..).unwrap_or_default();
                codes::look_up(&values, First::High, bytes, block);
            } else {
                let value = |element| values.get(usize::from(code(element))).copied().unwrap_or_default();
                (at..).zip(block).for_each(|(element, x)| *x = value(element));
            }
            (at, done) = (at + length as u64, done + length);
        }
    }
}
