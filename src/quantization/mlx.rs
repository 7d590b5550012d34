//! MLX: affine codes of 2 to 8 bits, and mxfp4, mxfp8 and nvfp4.
//!
//! Source: PyPI `mlx` 0.32.4 (`mx.quantize`, `mx.dequantize`), and `config.json` as mlx-lm 0.32.2 writes it.
//! `mx.dequantize` computes in the dtype of the scales, and rounds the product and the sum: so does a conversion to
//! that dtype. A conversion to another dtype computes in F32, as the Metal kernels do: codes times scale are exact,
//! and the sum is rounded once.

use super::codes::Codes;
use super::found::{Ambiguous, GIVE_CONFIG, Group, LOAD_PARTS, described};
use super::grid::{Grid, Offset, Rounding, Scales};
use super::stored::{Part, Position, Stored};
use crate::dtype::Dtype;
use crate::index::Metadata;
use serde_json::{Value, json};
use std::sync::Arc;

/// The widths and group sizes of `mx.quantize`.
const BITS: [u64; 6] = [2, 3, 4, 5, 6, 8];
const GROUP_SIZES: [u64; 3] = [32, 64, 128];

/// The ratio of words of codes to scales, the method, the dtype of the codes and of the scales, and the group size.
const FLOATS: [(u64, &str, Codes, Dtype, u64); 3] = [
    (4, "mxfp4", Codes::E2m1, Dtype::F8_E8M0, 32),
    (8, "mxfp8", Codes::Elements(Dtype::F8_E4M3), Dtype::F8_E8M0, 32),
    (2, "nvfp4", Codes::E2m1, Dtype::F8_E4M3, 16),
];

/// Recognizes the tensor whose scales are `{base}.scales`.
pub(super) fn detect(stored: &Stored<'_>, base: &str) -> Option<Group> {
    let name = format!("{base}.weight");
    let codes = stored.get(&name).filter(|codes| codes.is(&[Dtype::U32]))?;
    let scales = stored.get(&format!("{base}.scales"))?;
    let biases = stored.get(&format!("{base}.biases")).or_else(|| stored.get(&format!("{base}.qbiases")));
    let ([rows, words], [scale_rows, groups]) = (codes.matrix()?, scales.matrix()?);
    if rows != scale_rows || groups == 0 || codes.shape.len() != scales.shape.len() || codes.shape.len() < 2 {
        return None;
    }
    let matrix = Matrix { rows, words, groups };
    match biases {
        Some(biases) if biases.shape == scales.shape && biases.dtype == scales.dtype => {
            affine(stored, base, name, [codes, scales, biases], &matrix)
        }
        None if scales.is(&[Dtype::U8]) => floats(stored, base, name, &codes, &scales, &matrix),
        _ => None,
    }
}

/// The sizes of codes and scales.
struct Matrix {
    rows: u64,
    words: u64,
    groups: u64,
}

fn affine(stored: &Stored<'_>, base: &str, name: String, parts: [Part<'_>; 3], matrix: &Matrix) -> Option<Group> {
    let [codes, scales, biases] = parts;
    if !scales.is(&[Dtype::F32, Dtype::F16, Dtype::BF16]) {
        return None;
    }
    let parts = vec![("weight", codes.at), ("scales", scales.at), ("biases", biases.at)];
    let candidates = candidates(matrix);
    let stated = stated(stored, base);
    let chosen = match (candidates.as_slice(), stated) {
        (_, Some(stated)) if candidates.contains(&stated) => stated,
        ([only], _) => *only,
        _ => {
            let list: Vec<_> =
                candidates.iter().map(|(bits, size)| format!("{bits} bits in groups of {size}")).collect();
            let what = match (list.as_slice(), stated) {
                ([], _) => "its shapes are not those of affine codes of MLX".to_owned(),
                (list, None) => format!("it is quantized by MLX, but its shapes fit {}", list.join(" and ")),
                (list, Some((bits, size))) => format!(
                    "config.json states {bits} bits in groups of {size}, but its shapes fit {}",
                    list.join(" and ")
                ),
            };
            return Some(Group::ambiguous(name, &codes, parts, "mlx", Ambiguous { what, advice: GIVE_CONFIG }));
        }
    };
    let (bits, group_size) = chosen;
    let codec = Codes::Stream { bits: bits as u32, zero: 0 };
    let described = described(json!({ "method": "mlx", "mode": "affine", "bits": bits, "groupSize": group_size }));
    let grid = grid(matrix, group_size, codec, scales.dtype.clone(), Offset::Biases(2), scales.dtype);
    Some(group(name, &codes, scales.dtype.clone(), parts, grid, described))
}

/// The widths and group sizes that the shapes fit.
fn candidates(matrix: &Matrix) -> Vec<(u64, u64)> {
    let fits = |bits: u64, size: u64| {
        let columns = matrix.groups.checked_mul(size);
        columns.and_then(|columns| columns.checked_mul(bits)) == matrix.words.checked_mul(32)
    };
    let all = BITS.iter().flat_map(|bits| GROUP_SIZES.iter().map(move |size| (*bits, *size)));
    all.filter(|(bits, size)| fits(*bits, *size)).collect()
}

/// The width and group size that `config.json` states: those of the layer, or of all.
fn stated(stored: &Stored<'_>, base: &str) -> Option<(u64, u64)> {
    let config = stored.config?;
    let of = |get: &dyn Fn(&str) -> Option<u64>| Some((get("bits")?, get("group_size")?));
    let layer = config.get(&[base]).and_then(Value::as_object);
    let of_layer = layer.and_then(|layer| of(&|key| layer.get(key)?.as_u64()));
    of_layer.or_else(|| of(&|key| config.integer(&[key])))
}

fn floats(
    stored: &Stored<'_>,
    base: &str,
    name: String,
    codes: &Part<'_>,
    scales: &Part<'_>,
    matrix: &Matrix,
) -> Option<Group> {
    let fits = |ratio: u64| matrix.groups.checked_mul(ratio) == Some(matrix.words);
    let (_, mode, codec, scale, size) = FLOATS.iter().find(|(ratio, ..)| fits(*ratio))?;
    let mut parts = vec![("weight", codes.at), ("scales", scales.at)];
    if let Some(global) = stored.get(&format!("{base}.global_scale")) {
        parts.push(("global_scale", global.at));
        let what = "it is quantized by MLX with a global scale, which is not supported".to_owned();
        return Some(Group::ambiguous(name, codes, parts, "mlx", Ambiguous { what, advice: LOAD_PARTS }));
    }
    let bits = if *codec == Codes::E2m1 { 4 } else { 8 };
    let described = described(json!({ "method": "mlx", "mode": mode, "bits": bits, "groupSize": size }));
    let grid = grid(matrix, *size, codec.clone(), scale.clone(), Offset::None, &Dtype::F32);
    Some(group(name, codes, Dtype::BF16, parts, grid, described))
}

fn grid(matrix: &Matrix, group_size: u64, codes: Codes, scale: Dtype, offset: Offset, steps: &Dtype) -> Grid {
    let Matrix { rows, words, groups } = *matrix;
    let columns = groups.saturating_mul(group_size);
    let scales = Scales { dtype: scale, block: [1, group_size], count: rows.saturating_mul(groups), columns: groups };
    let row_bytes = words.saturating_mul(4);
    Grid { row_bytes, offset, rounding: Rounding::Steps(steps.clone()), ..Grid::new(rows, columns, codes, scales) }
}

fn group(
    name: String,
    codes: &Part<'_>,
    dtype: Dtype,
    parts: Vec<(&'static str, Position)>,
    grid: Grid,
    described: Metadata,
) -> Group {
    let mut shape = codes.shape.to_vec();
    if let Some(columns) = shape.last_mut() {
        *columns = grid.columns;
    }
    Group { name, dtype, shape, parts, scheme: Arc::new(grid), described }
}
