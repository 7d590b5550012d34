//! Computes the rows of adapted tensors: `W + scale · B·A`, in F32.
//!
//! Sums over the rank are in order, without fused operations, so that all platforms give the same bits. The weight is
//! taken in F32, and the result is rounded once; PEFT rounds the update to the dtype of the weight first.

use crate::codec::dequantize::decoder_of;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::index::{Bytes, Scheme};
use std::ops::Range;
use std::sync::Arc;
use weightstream_kernels::codes;

/// The scheme of an adapted tensor. Its first components are those of the weight.
#[derive(Debug)]
pub(super) struct Adapted {
    pub(super) weight: Weight,
    /// The number of components of the weight.
    pub(super) weight_parts: usize,
    /// The columns of the tensor as a matrix whose columns are the last dimension.
    pub(super) columns: u64,
    /// The number of elements of each row of the outermost dimension.
    pub(super) row_elements: u64,
    pub(super) updates: Vec<Update>,
}

/// How the weight is stored.
#[derive(Debug)]
pub(super) enum Weight {
    /// Elements or blocks of a dtype that has a decoder.
    Elements(Dtype),
    /// Codes, scales and more.
    Quantized(Arc<dyn Scheme>),
}

/// What is added to the weight: `left · right`, scaled.
#[derive(Debug, Clone)]
pub(super) struct Update {
    /// A matrix with a row for each row of the weight, and a column for each of the rank.
    pub(super) left: Factor,
    /// A matrix with a row for each of the rank, and the elements of a row of the weight.
    pub(super) right: Factor,
    pub(super) rank: u64,
    /// The component with a scalar that is divided by the rank, and multiplied by `scale`, and its dtype.
    pub(super) alpha: Option<(usize, Dtype)>,
    pub(super) scale: f64,
    /// The component with the norms that rows have after the update (DoRA), and its dtype.
    pub(super) magnitude: Option<(usize, Dtype)>,
}

impl Update {
    /// What the product is multiplied by.
    fn scale(&self, parts: &[&[u8]]) -> f32 {
        let alpha = self.alpha.as_ref().map_or(1.0, |(part, dtype)| {
            let bytes = parts.get(*part).copied().unwrap_or_default();
            scalar(dtype, bytes) / self.rank as f64
        });
        (alpha * self.scale) as f32
    }
}

/// A matrix of an adapter.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    /// The number of the component.
    pub(super) part: usize,
    /// A dtype of floats.
    pub(super) dtype: Dtype,
    pub(super) rows: u64,
    pub(super) columns: u64,
    /// Whether it is stored with its columns as rows.
    pub(super) is_transposed: bool,
}

impl Factor {
    /// The bytes of some of its rows.
    fn needs(&self, rows: &Range<u64>) -> Bytes {
        let size = element_bytes(&self.dtype);
        let bytes = |elements: u64| elements.saturating_mul(size);
        match self.is_transposed {
            true if *rows == (0..self.rows) => Bytes::Range(0..bytes(self.rows.saturating_mul(self.columns))),
            true => Bytes::Columns {
                columns: bytes(rows.start)..bytes(rows.end),
                row_bytes: bytes(self.rows),
                count: self.columns,
            },
            false => {
                let row_bytes = bytes(self.columns);
                Bytes::Range(rows.start.saturating_mul(row_bytes)..rows.end.saturating_mul(row_bytes))
            }
        }
    }

    /// This number of rows, one after another, from their bytes.
    fn read(&self, parts: &[&[u8]], count: u64) -> Vec<f32> {
        let bytes = parts.get(self.part).copied().unwrap_or_default();
        let stored = floats(&self.dtype, bytes, count.saturating_mul(self.columns) as usize);
        if !self.is_transposed {
            return stored;
        }
        let positions = (0..count).flat_map(|row| (0..self.columns).map(move |column| column * count + row));
        positions.map(|at| stored.get(at as usize).copied().unwrap_or_default()).collect()
    }
}

fn floats(dtype: &Dtype, bytes: &[u8], length: usize) -> Vec<f32> {
    let mut out = vec![0.0; length];
    if let Some(decoder) = decoder_of(dtype) {
        (decoder.decode)(bytes, &mut out);
    }
    out
}

fn scalar(dtype: &Dtype, bytes: &[u8]) -> f64 {
    let bits = bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
    match dtype {
        Dtype::I64 => bits as f64,
        Dtype::F64 => f64::from_bits(bits.cast_unsigned()),
        _ => floats(dtype, bytes, 1).first().map_or(0.0, |value| f64::from(*value)),
    }
}

/// The size of a number.
fn element_bytes(dtype: &Dtype) -> u64 {
    dtype.block().map_or(1, |block| block.bytes)
}

impl Adapted {
    /// The rows of the outermost dimension that some rows of the matrix are in.
    fn outer(&self, rows: &Range<u64>) -> Range<u64> {
        let elements = self.elements(rows);
        let row_elements = self.row_elements.max(1);
        elements.start / row_elements..elements.end.div_ceil(row_elements)
    }

    fn elements(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start.saturating_mul(self.columns)..rows.end.saturating_mul(self.columns)
    }

    /// Adds an update to the elements of rows.
    fn add(&self, update: &Update, rows: &Range<u64>, parts: &[&[u8]], out: &mut [f32]) {
        let Update { left, right, rank, magnitude, .. } = update;
        let scale = update.scale(parts);
        let (outer, elements, width) = (self.outer(rows), self.elements(rows), self.row_elements);
        let (left, right) = (left.read(parts, outer.end - outer.start), right.read(parts, *rank));
        let magnitudes = magnitude.as_ref().map(|(part, dtype)| {
            let bytes = parts.get(*part).copied().unwrap_or_default();
            floats(dtype, bytes, (outer.end - outer.start) as usize)
        });
        let (mut rest, mut at) = (out, elements.start);
        let mut product = vec![0.0; width as usize];
        for (number, row) in outer.enumerate() {
            let within = at - row * width..((row + 1) * width).min(elements.end) - row * width;
            let (own, others) = rest.split_at_mut_checked((within.end - within.start) as usize).unwrap_or_default();
            let within = within.start as usize..within.end as usize;
            let product = product.get_mut(within.clone()).unwrap_or_default();
            product.fill(0.0);
            let factors = left.get(number * *rank as usize..).unwrap_or_default();
            let factors = factors.get(..*rank as usize).unwrap_or(factors);
            let right = right.chunks_exact(width.max(1) as usize);
            let right = right.map(|row| row.get(within.clone()).unwrap_or_default());
            codes::add_products(product, factors, right);
            codes::add_products(own, &[scale], std::iter::once(&*product));
            if let Some(magnitude) = magnitudes.as_ref().and_then(|all| all.get(number)) {
                let norm = own.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt() as f32;
                let factor = magnitude / norm;
                own.iter_mut().for_each(|x| *x *= factor);
            }
            at = (row + 1) * width;
            rest = others;
        }
    }
}

impl Scheme for Adapted {
    fn is_adapted(&self) -> bool {
        true
    }

    fn replaced_by_values(&self, to: &Dtype) -> Option<usize> {
        matches!(&self.weight, Weight::Elements(dtype) if dtype == to).then_some(0)
    }

    fn check(&self) -> Result<()> {
        match &self.weight {
            Weight::Quantized(scheme) => scheme.check(),
            Weight::Elements(_) => Ok(()),
        }
    }

    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let mut needs = match &self.weight {
            Weight::Quantized(scheme) => scheme.needs(rows),
            Weight::Elements(dtype) => {
                let (bytes, elements) = dtype.block().map_or((1, 1), |block| (block.bytes, block.elements));
                let at = |row: u64| row.saturating_mul(self.columns / elements.max(1)).saturating_mul(bytes);
                vec![Bytes::Range(at(rows.start)..at(rows.end))]
            }
        };
        let outer = self.outer(rows);
        let mut need = |part: usize, bytes: Bytes| {
            needs.resize(needs.len().max(part + 1), Bytes::Range(0..0));
            if let Some(need) = needs.get_mut(part) {
                *need = bytes;
            }
        };
        for Update { left, right, rank, alpha, magnitude, .. } in &self.updates {
            need(left.part, left.needs(&outer));
            need(right.part, right.needs(&(0..*rank)));
            if let Some((part, dtype)) = alpha {
                need(*part, Bytes::Range(0..element_bytes(dtype)));
            }
            if let Some((part, dtype)) = magnitude {
                let size = element_bytes(dtype);
                need(*part, Bytes::Range(outer.start.saturating_mul(size)..outer.end.saturating_mul(size)));
            }
        }
        needs
    }

    fn decode(&self, rows: &Range<u64>, parts: &[&[u8]], _to: &Dtype, out: &mut [f32]) {
        let of_weight = parts.get(..self.weight_parts).unwrap_or_default();
        match &self.weight {
            Weight::Quantized(scheme) => scheme.decode(rows, of_weight, &Dtype::F32, out),
            Weight::Elements(dtype) => {
                if let (Some(decoder), [bytes]) = (decoder_of(dtype), of_weight) {
                    (decoder.decode)(bytes, out);
                }
            }
        }
        self.updates.iter().for_each(|update| self.add(update, rows, parts, out));
    }
}
