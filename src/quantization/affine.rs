//! Affine quantization whose scales and offsets are stated beside a tensor: in `model.json` of TensorFlow.js, and in
//! the FlatBuffer of TensorFlow Lite.
//!
//! Sources: `decodeWeights` of npm `@tensorflow/tfjs-core` 4.22, and the operator Dequantize of PyPI `ai-edge-litert`
//! 2.3.

use super::codes::Codes;
use super::constants::WithConstants;
use super::found::Group;
use super::grid::{Grid, Offset, RowStarts};
use super::slices::Slices;
use super::stored::Position;
use crate::dtype::Dtype;
use crate::index::{Bytes, DATA, Encoding, Layout, Metadata, Scheme, Tensor, matrix_of};
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;

/// Recognizes a tensor whose attribute `quantization` states how its elements become floats.
pub(super) fn detect(tensor: &Tensor, at: Position) -> Option<Group> {
    let described = tensor.attributes.get("quantization")?.as_object()?;
    let [data] = tensor.components.as_slice() else { return None };
    if tensor.layout != Layout::Dense || data.encoding != Encoding::Raw {
        return None;
    }
    let scheme: Arc<dyn Scheme> = match described.get("method")?.as_str()? {
        "tfjs" => Arc::new(Linear::of(tensor, described)?),
        "tflite" => Arc::new(of_tflite(tensor, described)?),
        _ => return None,
    };
    let (name, shape, parts) = (tensor.name.clone(), tensor.shape.clone(), vec![(DATA, at)]);
    Some(Group { name, dtype: Dtype::F32, shape, parts, scheme, described: described.clone() })
}

/// Unsigned integers that are multiplied and added in F64, as JavaScript computes.
#[derive(Debug, Clone, PartialEq)]
struct Linear {
    columns: u64,
    code_bytes: u64,
    scale: f64,
    min: f64,
}

impl Linear {
    fn of(tensor: &Tensor, described: &Metadata) -> Option<Self> {
        let number = |key: &str| described.get(key).and_then(Value::as_f64);
        let code_bytes = match tensor.dtype {
            Dtype::U8 => 1,
            Dtype::U16 => 2,
            _ => return None,
        };
        let is_float = described.get("to").and_then(Value::as_str) == Some("float32");
        let [_, columns] = matrix_of(&tensor.shape).ok()?;
        let (scale, min) = (number("scale")?, number("min")?);
        is_float.then_some(Linear { columns, code_bytes, scale, min })
    }
}

impl Scheme for Linear {
    fn needs(&self, rows: &Range<u64>) -> Vec<Bytes> {
        let row_bytes = self.columns.saturating_mul(self.code_bytes);
        vec![Bytes::Range(rows.start.saturating_mul(row_bytes)..rows.end.saturating_mul(row_bytes))]
    }

    fn decode(&self, _rows: &Range<u64>, parts: &[&[u8]], _to: &Dtype, out: &mut [f32]) {
        let codes = parts.first().copied().unwrap_or_default();
        let value = |code: u16| (f64::from(code) * self.scale + self.min) as f32;
        match self.code_bytes {
            1 => out.iter_mut().zip(codes).for_each(|(x, code)| *x = value(u16::from(*code))),
            _ => {
                let codes = codes.as_chunks::<2>().0.iter();
                out.iter_mut().zip(codes).for_each(|(x, code)| *x = value(u16::from_le_bytes(*code)));
            }
        }
    }
}

/// `None` if scales are not listed, are for blocks, or are of integers that are not read.
fn of_tflite(tensor: &Tensor, described: &Metadata) -> Option<WithConstants> {
    let (codes, _) = Codes::of(&tensor.dtype)?;
    let numbers = |key: &str| described.get(key).and_then(Value::as_array);
    let is_complete = !["scale_range", "zero_point_range", "blockwise"].iter().any(|key| described.contains_key(*key));
    let scales = numbers("scale").filter(|_| is_complete)?;
    let axis = usize::try_from(described.get("quantized_dimension")?.as_i64()?).ok()?;
    let dims = [scales.len() as u64];
    let Slices { rows, grid, stack } = Slices::of([&tensor.shape, &dims], &Dtype::F32, axis, 0)??;
    let mut bytes = Vec::with_capacity(scales.len() * 4);
    for scale in scales {
        bytes.extend((scale.as_f64()? as f32).to_le_bytes());
    }
    let mut known = vec![(1, bytes)];
    let mut offset = Offset::None;
    if let Some(zeros) = numbers("zero_point") {
        let is_signed = matches!(codes, Codes::Signed { .. } | Codes::Elements(Dtype::I8 | Dtype::I16));
        let zero = |zero: &Value| match is_signed {
            true => Some(i8::try_from(zero.as_i64()?).ok()?.cast_unsigned()),
            false => u8::try_from(zero.as_i64()?).ok(),
        };
        let listed: Option<Vec<u8>> = zeros.iter().map(zero).collect();
        let mut listed = listed?;
        if let [only] = *listed {
            listed = vec![only; scales.len()];
        }
        if listed.len() != scales.len() {
            return None;
        }
        let codes = if is_signed { Codes::Elements(Dtype::I8) } else { Codes::Stream { bits: 8, zero: 0 } };
        offset = Offset::Zeros { part: 2, codes, rows: RowStarts::Bytes };
        known.push((2, listed));
    }
    let [_, columns] = matrix_of(&tensor.shape).ok()?;
    let scheme = Grid { starts: RowStarts::Anywhere, stack, offset, ..Grid::new(rows, columns, codes, grid) };
    Some(WithConstants { scheme, stored: 1, known })
}
