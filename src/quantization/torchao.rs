//! torchao: tensors of 8-bit integers and floats.
//!
//! Source: PyPI `torchao` 0.18.0 (`prototype.safetensors.safetensors_support`, `Int8Tensor.dequantize`,
//! `Float8Tensor.dequantize`, `IntxUnpackedToInt8Tensor.dequantize`). The layouts of 4 bits are not read: they stay the
//! tensors of the file.

use super::codes::Codes;
use super::float8::{is_float8, type_of};
use super::found::{Group, described};
use super::grid::{Grid, Offset, Rounding};
use super::scale_grid::scales_of;
use super::stored::Stored;
use crate::dtype::Dtype;
use serde_json::{Value, json};
use std::sync::Arc;

/// Recognizes the tensor whose scales are `{base}._weight_scale`.
pub(super) fn detect(stored: &Stored<'_>, base: &str) -> Option<Group> {
    let get = |part: &str| stored.get(&format!("{base}.{part}"));
    let codes = get("_weight_qdata").filter(|codes| codes.is(&[Dtype::I8]) || is_float8(codes.dtype))?;
    let scales = get("_weight_scale").filter(|scales| scales.is(&[Dtype::F32, Dtype::F16, Dtype::BF16]))?;
    let name = format!("{base}.weight");
    let state: Value = serde_json::from_str(stored.files.get(codes.at.0)?.metadata.get(&name)?.as_str()?).ok()?;
    let data = state.get("_data")?;
    let block = data.get("block_size").and_then(Value::as_array).and_then(|block| match block.as_slice() {
        [rows, columns] => Some([rows.as_u64()?, columns.as_u64()?]),
        _ => None,
    });
    let shape = codes.shape.to_vec();
    let grid = scales_of(&scales, &shape, block).ok()?;
    let [.., rows, columns] = *shape else { return None };
    let mut parts = vec![("_weight_qdata", codes.at), ("_weight_scale", scales.at)];
    let offset = match get("_weight_zero_point") {
        Some(zeros) if zeros.is(&[Dtype::I8]) && zeros.elements() == scales.elements() => {
            parts.push(("_weight_zero_point", zeros.at));
            Offset::of_i8(2)
        }
        Some(_) => return None,
        None => Offset::None,
    };
    let stated = data.get("dtype");
    let dtype = match stated.and_then(|stated| stated.as_str().or_else(|| stated.get("_data")?.as_str())) {
        Some("torch.bfloat16" | "bfloat16") => Dtype::BF16,
        Some("torch.float16" | "float16") => Dtype::F16,
        _ => Dtype::F32,
    };
    let codec = Codes::Elements(codes.dtype.clone());
    let described = described(json!({ "method": "torchao", "type": type_of(&codec), "bits": 8 }));
    let scheme = Grid { offset, rounding: Rounding::End(dtype.clone()), ..Grid::new(rows, columns, codec, grid) };
    Some(Group { name, dtype, shape, parts, scheme: Arc::new(scheme), described })
}
