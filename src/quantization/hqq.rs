//! HQQ: 1, 2, 3, 4 and 8 bits.
//!
//! Source: PyPI `hqq` 0.2.8.post1 (`Quantizer.dequantize`, `BitPack`). The difference and the product are each rounded
//! to the dtype of the scales.

use super::found::{Ambiguous, Group, LOAD_PARTS, described};
use super::row_blocks::{RowBlocks, ScaleOf};
use super::stored::{Part, Stored};
use crate::dtype::{Dtype, element_count};
use crate::index::matrix_of;
use serde_json::json;
use std::sync::Arc;

/// The parts that describe a tensor.
const STATE: [&str; 16] = [
    "nbits",
    "group_size",
    "shape",
    "axis",
    "packing",
    "channel_wise",
    "optimize",
    "round_zero",
    "unpack_view_dtype",
    "view_as_float",
    "compute_dtype",
    "encoded_state_dict",
    "stores_quant_config",
    "offload_meta",
    "quant_scale",
    "quant_zero",
];

/// Recognizes the tensor whose codes are `{base}.W_q`.
pub(super) fn detect(stored: &Stored<'_>, base: &str) -> Option<Group> {
    let get = |part: &str| stored.get(&format!("{base}.{part}"));
    let (codes, scales, zeros) = (get("W_q")?, get("scale")?, get("zero")?);
    let mut parts = vec![("W_q", codes.at), ("scale", scales.at), ("zero", zeros.at)];
    parts.extend(STATE.iter().filter_map(|state| Some((*state, get(state)?.at))));
    let name = format!("{base}.weight");
    Some(match scheme(stored, base, &codes, &scales, &zeros) {
        Some((scheme, shape)) => {
            let size = if scheme.scale_of == ScaleOf::Row { scheme.matrix[1] } else { scheme.matrix[0] };
            let described = described(json!({ "method": "hqq", "bits": scheme.bits, "groupSize": size }));
            let dtype = scheme.dtype.clone();
            Group { name, dtype, shape, parts, scheme: Arc::new(scheme), described }
        }
        None => {
            let what = "the state of HQQ beside its codes does not fit them, or is not supported".to_owned();
            Group::ambiguous(name, &codes, parts, "hqq", Ambiguous { what, advice: LOAD_PARTS })
        }
    })
}

fn scheme(
    stored: &Stored<'_>,
    base: &str,
    codes: &Part<'_>,
    scales: &Part<'_>,
    zeros: &Part<'_>,
) -> Option<(RowBlocks, Vec<u64>)> {
    let integers = |part: &str| stored.integers(&format!("{base}.{part}"));
    let number = |part: &str| integers(part)?.first().and_then(|number| u64::try_from(*number).ok());
    let shape: Vec<u64> = integers("shape")?
        .into_iter()
        .map(u64::try_from)
        .collect::<Result<_, _>>()
        .ok()
        .filter(|dims: &Vec<_>| !dims.is_empty())?;
    let packing = stored.content(&format!("{base}.packing"))?;
    let (bits, word_bytes, per_word) = match (packing, number("nbits")?) {
        (b"8bit_u8", 5..=8) => (8, 1, 1),
        (b"4bit_u8", 4) => (4, 1, 2),
        (b"3bit_32", 3) => (3, 4, 10),
        (b"2bit_u8", 2) => (2, 1, 4),
        (b"1bit_u8", 1) => (1, 1, 8),
        _ => return None,
    };
    let elements = element_count(&shape).ok()?;
    let floats = [Dtype::F16, Dtype::BF16, Dtype::F32];
    let count = scales.elements();
    if !scales.is(&floats) || zeros.dtype != scales.dtype || zeros.elements() != count || count == 0 {
        return None;
    }
    let size = elements.checked_div(count).filter(|size| size.checked_mul(count) == Some(elements))?;
    let (matrix, scale_of) = match number("axis")? {
        1 => ([count, size], ScaleOf::Row),
        0 => ([size, count], ScaleOf::Column),
        _ => return None,
    };
    let [_, columns] = matrix_of(&shape).ok()?;
    let scheme = RowBlocks { columns, matrix, bits, word_bytes, per_word, scale_of, dtype: scales.dtype.clone() };
    let packed = scheme.packed_rows().checked_mul(matrix[1])?.checked_mul(word_bytes)?;
    (codes.byte_length() == packed).then_some((scheme, shape))
}
