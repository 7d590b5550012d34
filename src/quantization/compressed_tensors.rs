//! compressed-tensors (llm-compressor, vLLM), and scales of NVIDIA ModelOpt and ComfyUI with the same names.
//!
//! Source: PyPI `compressed-tensors` 0.20.0 (`CompressedLinear`, `ModelCompressor.decompress_model`): values are
//! rounded to the dtype of the scales, those of nvfp4 to BF16. ModelOpt multiplies with its second scale
//! (transformers 5.24).

use super::codes::Codes;
use super::float8::{is_float8, type_of};
use super::found::{Ambiguous, GIVE_CONFIG, Group, LOAD_PARTS, described};
use super::grid::{Factor, Grid, Offset, Packing, Rounding};
use super::scale_grid::{scales_of, stated_block};
use super::stored::{Part, Position, Stored};
use crate::dtype::Dtype;
use serde_json::json;
use std::sync::Arc;

/// What is known about a tensor before its scales are divided among its codes.
struct Found<'a> {
    method: &'static str,
    codes: Part<'a>,
    scales: Part<'a>,
    parts: Vec<(&'static str, Position)>,
    codec: Codes,
    shape: Vec<u64>,
    factor: Factor,
    offset: Offset,
    group_indices: Option<usize>,
    rounding: Rounding,
    dtype: Dtype,
}

/// Recognizes the tensor whose scales are `{name}_scale`.
pub(super) fn detect(stored: &Stored<'_>, name: &str) -> Option<Group> {
    let scales = stored.get(&format!("{name}_scale"))?;
    if let Some(codes) = stored.get(&format!("{name}_packed")) {
        return packed(stored, name, codes, scales);
    }
    let codes = stored.get(name)?;
    let parts = vec![("weight", codes.at), ("weight_scale", scales.at)];
    let shape = codes.shape.to_vec();
    let float_scales = scales.is(&[Dtype::F32, Dtype::F16, Dtype::BF16]);
    let mut found = Found {
        method: "compressed-tensors",
        codec: Codes::Elements(codes.dtype.clone()),
        rounding: Rounding::End(scales.dtype.clone()),
        dtype: scales.dtype.clone(),
        parts,
        shape,
        factor: Factor::None,
        offset: Offset::None,
        group_indices: None,
        codes,
        scales,
    };
    match found.codes.dtype {
        dtype if is_float8(dtype) && (float_scales || found.scales.is(&[Dtype::U8, Dtype::F8_E8M0])) => {
            if !float_scales {
                (found.dtype, found.rounding) = (Dtype::BF16, Rounding::None);
            }
        }
        Dtype::I8 if float_scales => {
            if let Some(zeros) = stored.get(&format!("{name}_zero_point")) {
                if !zeros.is(&[Dtype::I8]) || zeros.elements() != found.scales.elements() {
                    return None;
                }
                found.offset = Offset::of_i8(found.parts.len());
                found.parts.push(("weight_zero_point", zeros.at));
            }
        }
        Dtype::U8 if found.scales.is(&[Dtype::F8_E4M3]) => {
            let second = stored.get(&format!("{name}_scale_2")).filter(|scale| is_one_f32(scale))?;
            found.method = "modelopt";
            found.unpack_e2m1()?;
            found.factor = Factor::Times(found.parts.len());
            found.parts.push(("weight_scale_2", second.at));
            (found.dtype, found.rounding) = (Dtype::BF16, Rounding::End(Dtype::BF16));
        }
        _ => return None,
    }
    Some(found.group(stored, name))
}

/// Recognizes the tensor whose codes are `{name}_packed`.
fn packed(stored: &Stored<'_>, name: &str, codes: Part<'_>, scales: Part<'_>) -> Option<Group> {
    let mut parts = vec![("weight_packed", codes.at), ("weight_scale", scales.at)];
    if codes.is(&[Dtype::I32]) {
        return packed_integers(stored, name, codes, scales, parts);
    }
    let codes = Some(codes).filter(|codes| codes.is(&[Dtype::U8]))?;
    let factor = match stored.get(&format!("{name}_global_scale")).filter(is_one_f32) {
        Some(global) if scales.is(&[Dtype::F8_E4M3]) => {
            parts.push(("weight_global_scale", global.at));
            Factor::Over(2)
        }
        None if scales.is(&[Dtype::U8, Dtype::F8_E8M0]) => Factor::None,
        _ => return None,
    };
    let mut found = Found {
        method: "compressed-tensors",
        shape: codes.shape.to_vec(),
        codec: Codes::E2m1,
        factor,
        offset: Offset::None,
        group_indices: None,
        rounding: Rounding::End(Dtype::BF16),
        dtype: Dtype::BF16,
        parts,
        codes,
        scales,
    };
    found.unpack_e2m1()?;
    Some(found.group(stored, name))
}

fn is_one_f32(part: &Part<'_>) -> bool {
    part.is(&[Dtype::F32]) && part.elements() == 1
}

/// The layout `pack-quantized`: integers in words of 32 bits.
fn packed_integers(
    stored: &Stored<'_>,
    name: &str,
    codes: Part<'_>,
    scales: Part<'_>,
    mut parts: Vec<(&'static str, Position)>,
) -> Option<Group> {
    let shape = stored.get(&format!("{name}_shape"))?;
    parts.push(("weight_shape", shape.at));
    let method = "compressed-tensors";
    let refuse = |what: String, parts: Vec<(&'static str, Position)>| {
        let advice = GIVE_CONFIG;
        Some(Group::ambiguous(name.to_owned(), &codes, parts, method, Ambiguous { what, advice }))
    };
    let stated = stored.integers(shape.name).and_then(|dims| match *dims {
        [rows, columns] => Some([u64::try_from(rows).ok()?, u64::try_from(columns).ok()?]),
        _ => None,
    });
    let (Some([rows, columns]), [stored_rows, words]) = (stated, codes.shape) else {
        return refuse("its `weight_shape` is not that of a matrix".to_owned(), parts);
    };
    let widths = widths(columns, *words, stored);
    let (true, [(bits, packing)]) = (rows == *stored_rows, widths.as_slice()) else {
        let list: Vec<_> = widths.iter().map(|(bits, _)| format!("{bits}")).collect();
        let fits = if list.is_empty() { "no number of bits".to_owned() } else { format!("{} bits", list.join(" or ")) };
        return refuse(format!("{words} words for {columns} columns fit {fits}"), parts);
    };
    let (bits, packing) = (*bits, *packing);
    let zero = 1 << (bits - 1);
    let mut offset = Offset::None;
    if let Some(zeros) = stored.get(&format!("{name}_zero_point")).filter(|zeros| zeros.is(&[Dtype::I32])) {
        offset = Offset::PackedZeros { part: parts.len(), bits, zero, packing };
        parts.push(("weight_zero_point", zeros.at));
    }
    let indices = stored.get(&format!("{name}_g_idx")).filter(|indices| indices.shape == [columns]);
    let group_indices = indices.map(|indices| {
        parts.push(("weight_g_idx", indices.at));
        parts.len() - 1
    });
    let codec = match packing {
        Packing::Dense => Codes::Stream { bits, zero },
        Packing::Words => Codes::Words { bits, zero },
    };
    let (rounding, dtype) = (Rounding::End(scales.dtype.clone()), scales.dtype.clone());
    let shape = vec![rows, columns];
    let factor = Factor::None;
    let found = Found { method, codes, scales, parts, codec, shape, factor, offset, group_indices, rounding, dtype };
    Some(found.group(stored, name))
}

/// The numbers of bits with which a row of `columns` codes has this number of words. compressed-tensors packs codes one
/// after another since version 0.18; older versions pack as many as fit in a word. If `config.json` states numbers of
/// bits, others are ignored.
fn widths(columns: u64, words: u64, stored: &Stored<'_>) -> Vec<(u32, Packing)> {
    let stated = stored.config.map(|config| config.of_groups("num_bits")).unwrap_or_default();
    let all = (2..=8_u32).filter(|bits| stated.is_empty() || stated.contains(&u64::from(*bits)));
    let fitting = all.filter_map(|bits| {
        let dense = columns.saturating_mul(u64::from(bits)).div_ceil(32) == words;
        let in_words = columns.div_ceil(u64::from(32 / bits)) == words;
        match (dense, in_words) {
            (true, _) => Some((bits, Packing::Dense)),
            (false, true) => Some((bits, Packing::Words)),
            (false, false) => None,
        }
    });
    fitting.collect()
}

impl Found<'_> {
    /// Two codes in each byte.
    fn unpack_e2m1(&mut self) -> Option<()> {
        self.codec = Codes::E2m1;
        let columns = self.shape.last_mut()?;
        *columns = columns.saturating_mul(2);
        Some(())
    }

    fn group(self, stored: &Stored<'_>, name: &str) -> Group {
        let Found { method, codes, scales, parts, codec, shape, .. } = self;
        let refuse = |what: String, advice: &'static str, parts: Vec<(&'static str, Position)>| {
            Group::ambiguous(name.to_owned(), &codes, parts, method, Ambiguous { what, advice })
        };
        let [.., rows, columns] = *shape else {
            return refuse("its codes are not a matrix".to_owned(), LOAD_PARTS, parts);
        };
        let group_size = stored.config.and_then(|config| config.of_groups("group_size").first().copied());
        let group_size = group_size.or_else(|| stored.config?.integer(&["group_size"]));
        let stated = stated_block(stored).or(group_size.map(|size| [1, size]));
        let grid = match scales_of(&scales, &shape, stated) {
            Ok(grid) => grid,
            Err(what) => return refuse(what, GIVE_CONFIG, parts),
        };
        if let Offset::PackedZeros { part, bits, packing, .. } = self.offset {
            let rows = match packing {
                Packing::Dense => rows.saturating_mul(u64::from(bits)).div_ceil(32),
                Packing::Words => rows.div_ceil(u64::from(32 / bits)),
            };
            let zeros = parts.get(part).and_then(|(_, at)| stored.at(*at));
            if zeros.is_none_or(|zeros| zeros.elements() != rows.saturating_mul(grid.columns)) {
                return refuse("its zero points do not fit its scales".to_owned(), LOAD_PARTS, parts);
            }
        }
        let block = grid.block;
        let described = described(json!({
            "method": method,
            "type": type_of(&codec),
            "bits": match codec {
                Codes::Stream { bits, .. } | Codes::Signed { bits } | Codes::Words { bits, .. } => bits,
                Codes::E2m1 => 4,
                Codes::Elements(_) => 8,
            },
            "blockSize": block,
        }));
        let row_bytes = match codec {
            Codes::Stream { .. } | Codes::Words { .. } => codes.shape.last().copied().unwrap_or(0).saturating_mul(4),
            _ => codec.row_bytes(columns),
        };
        let (factor, offset, group_indices, rounding) = (self.factor, self.offset, self.group_indices, self.rounding);
        let scheme =
            Grid { row_bytes, factor, offset, group_indices, rounding, ..Grid::new(rows, columns, codec, grid) };
        Group { name: name.to_owned(), dtype: self.dtype, shape, parts, scheme: Arc::new(scheme), described }
    }
}
