//! bitsandbytes: NF4 and FP4, also with quantized scales, and int8.
//!
//! Source: PyPI `bitsandbytes` 0.50.2 (`dequantize_4bit`, `int8_vectorwise_dequant`). Values of 4 bits are rounded to
//! the dtype that the file states.

use super::blocks::{NestedScales, SignOfZero, TableBlocks};
use super::codes::Codes;
use super::found::{Ambiguous, Group, LOAD_PARTS, described};
use super::grid::{Factor, Grid, Scales};
use super::stored::{Part, Stored};
use crate::dtype::{Dtype, element_count};
use crate::index::{Metadata, matrix_of};
use serde_json::{Value, json};
use std::sync::Arc;

/// 1/127 as bitsandbytes has it. Dividing by 127 gives other values.
const INT8_FACTOR: f32 = 0.007_874_016;

/// Recognizes the tensor whose scales are `{name}.absmax`.
pub(super) fn detect_4_bit(stored: &Stored<'_>, name: &str) -> Option<Group> {
    let get = |part: &str| stored.get(&format!("{name}.{part}"));
    let (codes, absmax, table) = (stored.get(name)?, get("absmax")?, get("quant_map")?);
    let state = ["nf4", "fp4"].iter().find_map(|kind| get(&format!("quant_state.bitsandbytes__{kind}")))?;
    let nested = get("nested_absmax").zip(get("nested_quant_map"));
    let mut parts = vec![("weight", codes.at), ("absmax", absmax.at), ("quant_map", table.at)];
    if let Some((scales, values)) = &nested {
        parts.extend([("nested_absmax", scales.at), ("nested_quant_map", values.at)]);
    }
    parts.push(("quant_state", state.at));
    let state = stored.content(state.name).and_then(|json| serde_json::from_slice::<Value>(json).ok());
    let found = state.and_then(|state| four_bits(&state, &codes, &absmax, &table, nested.as_ref()));
    Some(match found {
        Some((scheme, shape, described)) => Group {
            name: name.to_owned(),
            dtype: scheme.dtype.clone(),
            shape,
            parts,
            scheme: Arc::new(scheme),
            described,
        },
        None => {
            let what = "its parts do not fit what their `quant_state` says".to_owned();
            Group::ambiguous(name.to_owned(), &codes, parts, "bitsandbytes", Ambiguous { what, advice: LOAD_PARTS })
        }
    })
}

/// The scheme, shape and description of parts that fit together.
fn four_bits(
    state: &Value,
    codes: &Part<'_>,
    absmax: &Part<'_>,
    table: &Part<'_>,
    nested: Option<&(Part<'_>, Part<'_>)>,
) -> Option<(TableBlocks, Vec<u64>, Metadata)> {
    let shape: Vec<u64> = state.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    let (block, elements) = (state.get("blocksize")?.as_u64().filter(|block| *block > 0)?, element_count(&shape).ok()?);
    let dtype = match state.get("dtype")?.as_str()? {
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "float32" => Dtype::F32,
        _ => return None,
    };
    let blocks = elements.div_ceil(block);
    let nested_block = nested.map(|(scales, values)| {
        let block = state.get("nested_blocksize")?.as_u64().filter(|block| *block > 0)?;
        let fits = scales.is(&[Dtype::F32]) && scales.elements() == blocks.div_ceil(block);
        let has_table = values.is(&[Dtype::F32]) && values.elements() == 256;
        let offset = state.get("nested_offset")?.as_f64()? as f32;
        (fits && has_table && absmax.is(&[Dtype::U8])).then_some(NestedScales { block, offset })
    });
    let nested = match nested_block {
        Some(nested) => Some(nested?),
        None if absmax.is(&[Dtype::F32]) => None,
        None => return None,
    };
    let fits = absmax.elements() == blocks && table.is(&[Dtype::F32]) && table.elements() == 16;
    if !fits || codes.byte_length() != elements.div_ceil(2) {
        return None;
    }
    let kind = state.get("quant_type").and_then(Value::as_str).unwrap_or_default();
    let described = described(json!({ "method": "bitsandbytes", "type": kind, "bits": 4, "groupSize": block }));
    let [_, columns] = matrix_of(&shape).ok()?;
    let sign = if kind == "fp4" { SignOfZero::OfCode8 } else { SignOfZero::Stored };
    Some((TableBlocks { columns, block, nested, sign, dtype }, shape, described))
}

/// Recognizes the tensor whose scales are `{base}.SCB`.
pub(super) fn detect_8_bit(stored: &Stored<'_>, base: &str) -> Option<Group> {
    let name = format!("{base}.weight");
    let codes = stored.get(&name).filter(|codes| codes.is(&[Dtype::I8]))?;
    let scales = stored.get(&format!("{base}.SCB")).filter(|scales| scales.is(&[Dtype::F32]))?;
    let [rows, columns] = codes.matrix()?;
    if scales.elements() != rows {
        return None;
    }
    let mut parts = vec![("weight", codes.at), ("SCB", scales.at)];
    parts.extend(stored.get(&format!("{base}.weight_format")).map(|format| ("weight_format", format.at)));
    let scales = Scales { dtype: Dtype::F32, block: [1, columns.max(1)], count: rows, columns: 1 };
    let scheme = Grid::new(rows, columns, Codes::Elements(Dtype::I8), scales);
    let scheme = Grid { factor: Factor::After(INT8_FACTOR), ..scheme };
    let described = described(json!({ "method": "bitsandbytes", "type": "int8", "bits": 8 }));
    let shape = codes.shape.to_vec();
    Some(Group { name, dtype: Dtype::F32, shape, parts, scheme: Arc::new(scheme), described })
}
