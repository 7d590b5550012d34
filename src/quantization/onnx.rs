//! ONNX: initializers that the operators MatMulNBits and DequantizeLinear have as inputs.
//!
//! Source: `onnx/defs` of the Python package `onnx` 1.23 (DequantizeLinear 25) and the contributed operators of
//! `onnxruntime` 1.32 (MatMulNBits). Values are rounded to the dtype of the scales, as ONNX Runtime computes them.

use super::codes::Codes;
use super::constants::WithConstants;
use super::float8::is_float8;
use super::found::{Ambiguous, Group, LOAD_PARTS, described};
use super::grid::{Grid, Offset, Rounding, RowStarts, Scales};
use super::slices::Slices;
use super::stored::{Part, Stored};
use crate::codec::varint::Varints;
use crate::dtype::Dtype;
use crate::index::{Component, Operator, QuantizedNode, Scheme, StatedQuantization, matrix_of};
use serde_json::json;
use std::sync::Arc;

/// The dtypes of scales.
const SCALES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

/// What tools append to the name of a tensor whose codes are stored.
const ENDINGS: [&str; 7] = ["_Q2", "_Q4", "_Q8", "_quant", "_quantized", ".qweight", "_DQ"];

/// The smallest block of MatMulNBits.
const MIN_BLOCK: u64 = 16;

/// The parts of a tensor.
struct Inputs<'a> {
    codes: Part<'a>,
    scales: Part<'a>,
    zeros: Option<Part<'a>>,
    /// The decoded bytes of the zero points, if they are stored as varints.
    decoded_zeros: Option<Vec<u8>>,
    group_indices: Option<Part<'a>>,
}

/// Recognizes a tensor that a node has as input. `None` if a part is computed, or is not as the operator has it.
pub(super) fn detect(stored: &Stored<'_>, stated: &QuantizedNode) -> Option<Group> {
    let group_indices = match &stated.group_indices {
        Some(name) => Some(stored.get(name)?),
        None => None,
    };
    let (mut zeros, mut decoded_zeros) = (None, None);
    if let Some(name) = &stated.zeros {
        zeros = match stored.of_varints(name) {
            Some((zeros, data)) => {
                decoded_zeros = Some(decoded(data, stored.content(name)?)?);
                Some(zeros)
            }
            None => Some(stored.get(name)?),
        };
    }
    let inputs = Inputs {
        codes: stored.get(&stated.codes)?,
        scales: stored.get(&stated.scales).filter(|scales| scales.is(&SCALES))?,
        zeros,
        decoded_zeros,
        group_indices,
    };
    let name = name_of(stored, &stated.codes);
    match stated.operator {
        Operator::MatMulNBits { rows, columns, bits, block } => matmul(name, &inputs, [rows, columns], bits, block),
        Operator::DequantizeLinear { axis, block } => dequantize(name, &inputs, axis, block),
    }
}

/// The zero points that are stored as varints, which ranges cannot be read of.
pub(super) fn contents<'a>(stored: &Stored<'a>) -> impl Iterator<Item = Part<'a>> {
    let nodes = match stored.stated() {
        Some(StatedQuantization::Nodes(nodes)) => &**nodes,
        _ => &[],
    };
    let zeros = nodes.iter().filter_map(|node| node.zeros.as_deref());
    zeros.filter_map(|zeros| Some(stored.of_varints(zeros)?.0))
}

/// The elements of a small component that is stored as varints.
fn decoded(data: &Component, stored: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut emit = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    let mut varints = Varints::of(data);
    varints.push(stored, &mut emit).and_then(|()| varints.finish()).ok()?;
    Some(out)
}

/// The scheme, with zero points that need not be read.
fn with_zeros(scheme: Grid, decoded_zeros: Option<&Vec<u8>>) -> Arc<dyn Scheme> {
    match decoded_zeros {
        Some(zeros) => Arc::new(WithConstants { scheme, stored: 3, known: vec![(2, zeros.clone())] }),
        None => Arc::new(scheme),
    }
}

/// The name of the tensor: that of its codes, without what a tool appended if no other tensor has that name.
fn name_of(stored: &Stored<'_>, codes: &str) -> String {
    let base = ENDINGS.iter().find_map(|ending| codes.strip_suffix(ending)).filter(|base| !base.is_empty());
    base.filter(|base| stored.position(base).is_none()).unwrap_or(codes).to_owned()
}

fn matmul(name: String, inputs: &Inputs<'_>, matrix: [u64; 2], bits: u64, block: u64) -> Option<Group> {
    let Inputs { codes, scales, .. } = inputs;
    let [rows, columns] = matrix;
    if !matches!(bits, 2 | 4 | 8) || !block.is_power_of_two() || block < MIN_BLOCK || !codes.is(&[Dtype::U8]) {
        return None;
    }
    let (bits_of_code, blocks) = (bits as u32, columns.div_ceil(block));
    let row_bytes = blocks.checked_mul(block.checked_mul(bits)? / 8)?;
    let count = rows.checked_mul(blocks)?;
    if codes.elements() != rows.checked_mul(row_bytes)? || scales.elements() != count {
        return None;
    }
    let unsigned = Codes::Stream { bits: bits_of_code, zero: 0 };
    let mut parts = vec![("codes", codes.at), ("scales", scales.at)];
    let mut codec = unsigned.clone();
    let offset = match &inputs.zeros {
        None => {
            codec = Codes::Stream { bits: bits_of_code, zero: 1 << (bits_of_code - 1) };
            Offset::None
        }
        Some(zeros) if zeros.dtype == scales.dtype && zeros.elements() == count => Offset::FloatZeros(parts.len()),
        Some(zeros)
            if zeros.is(&[Dtype::U8]) && zeros.elements() == rows.checked_mul(unsigned.row_bytes(blocks))? =>
        {
            Offset::Zeros { part: parts.len(), codes: unsigned, rows: RowStarts::Bytes }
        }
        Some(_) => return None,
    };
    parts.extend(inputs.zeros.iter().map(|zeros| ("zero_points", zeros.at)));
    let mut group_indices = None;
    if let Some(indices) = &inputs.group_indices {
        if !indices.is(&[Dtype::I32]) || indices.elements() < columns {
            return None;
        }
        group_indices = Some(parts.len());
        parts.push(("g_idx", indices.at));
    }
    let described = described(json!({
        "method": "onnx", "operator": "MatMulNBits", "bits": bits, "groupSize": block,
        "symmetric": inputs.zeros.is_none(),
    }));
    let grid = Scales { dtype: scales.dtype.clone(), block: [1, block], count, columns: blocks };
    let rounding = Rounding::End(scales.dtype.clone());
    let scheme = Grid { row_bytes, offset, group_indices, rounding, ..Grid::new(rows, columns, codec, grid) };
    let (dtype, shape) = (scales.dtype.clone(), vec![rows, columns]);
    Some(Group { name, dtype, shape, parts, scheme: with_zeros(scheme, inputs.decoded_zeros.as_ref()), described })
}

fn dequantize(name: String, inputs: &Inputs<'_>, axis: i64, block: u64) -> Option<Group> {
    let Inputs { codes, scales, zeros, .. } = inputs;
    let (codec, bits) = Codes::of(codes.dtype)?;
    if zeros.as_ref().is_some_and(|zeros| zeros.dtype != codes.dtype || zeros.elements() != scales.elements()) {
        return None;
    }
    let mut parts = vec![("codes", codes.at), ("scales", scales.at)];
    parts.extend(zeros.iter().map(|zeros| ("zero_points", zeros.at)));
    let axis = usize::try_from(if axis < 0 { axis + codes.shape.len() as i64 } else { axis }).ok()?;
    let Some(Slices { rows, grid, stack }) = Slices::of([codes.shape, scales.shape], scales.dtype, axis, block)? else {
        let what = "its scales are for blocks of none of the last two dimensions, which is not supported".to_owned();
        return Some(Group::ambiguous(name, codes, parts, "onnx", Ambiguous { what, advice: LOAD_PARTS }));
    };
    let [_, columns] = matrix_of(codes.shape).ok()?;
    let offset = match zeros {
        Some(_) if is_float8(codes.dtype) || codec == Codes::E2m1 => Offset::None, // the operator demands zeros
        Some(_) => Offset::Zeros { part: 2, codes: codec.clone(), rows: RowStarts::Anywhere },
        None => Offset::None,
    };
    let described = described(json!({
        "method": "onnx", "operator": "DequantizeLinear", "bits": bits, "groupSize": (block > 0).then_some(block),
        "axis": axis, "symmetric": offset == Offset::None,
    }));
    let rounding = Rounding::End(scales.dtype.clone());
    let starts = RowStarts::Anywhere;
    let scheme = Grid { starts, stack, offset, rounding, ..Grid::new(rows, columns, codec, grid) };
    let (dtype, shape) = (scales.dtype.clone(), codes.shape.to_vec());
    Some(Group { name, dtype, shape, parts, scheme: with_zeros(scheme, inputs.decoded_zeros.as_ref()), described })
}
