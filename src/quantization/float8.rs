//! FP8 and FP4 with scales for blocks of rows and columns, and the scales of older files of ComfyUI.
//!
//! Sources: transformers 5.24 (`finegrained_fp8`) and DeepSeek's `weight_dequant` for blocks that do not divide the
//! matrix. The product of code and scale is rounded as F32, then to the requested dtype.

use super::codes::Codes;
use super::found::{Ambiguous, GIVE_CONFIG, Group, described};
use super::grid::Grid;
use super::scale_grid::{scales_of, stated_block};
use super::stored::{Part, Stored};
use crate::dtype::Dtype;
use serde_json::json;
use std::sync::Arc;

/// Recognizes the tensor whose scales are `{name}_scale_inv`. In spite of the name, codes are multiplied with them.
pub(super) fn detect_blocks(stored: &Stored<'_>, name: &str) -> Option<Group> {
    let codes = stored.get(name)?;
    let scales = stored.get(&format!("{name}_scale_inv"))?;
    let powers = scales.is(&[Dtype::F8_E8M0, Dtype::U8]);
    let mut shape = codes.shape.to_vec();
    let codec = match codes.dtype {
        Dtype::I8 | Dtype::U8 if powers => Codes::E2m1,
        dtype if is_float8(dtype) => Codes::Elements(dtype.clone()),
        _ => return None,
    };
    if codec == Codes::E2m1 {
        shape.last_mut().map(|columns| *columns = columns.saturating_mul(2))?;
    }
    Some(scaled(stored, name, &codes, &scales, "weight_scale_inv", codec, shape))
}

/// Recognizes the tensor whose only scale is `{base}.scale_weight`.
pub(super) fn detect_comfy(stored: &Stored<'_>, base: &str) -> Option<Group> {
    let name = format!("{base}.weight");
    let codes = stored.get(&name).filter(|codes| is_float8(codes.dtype))?;
    let scales = stored.get(&format!("{base}.scale_weight")).filter(|scales| scales.elements() == 1)?;
    let shape = codes.shape.to_vec();
    Some(scaled(stored, &name, &codes, &scales, "scale_weight", Codes::Elements(codes.dtype.clone()), shape))
}

pub(super) fn is_float8(dtype: &Dtype) -> bool {
    matches!(dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2)
}

fn scaled(
    stored: &Stored<'_>,
    name: &str,
    codes: &Part<'_>,
    scales: &Part<'_>,
    role: &'static str,
    codec: Codes,
    shape: Vec<u64>,
) -> Group {
    let parts = vec![("weight", codes.at), (role, scales.at)];
    let stated = stated_block(stored).filter(|_| codec != Codes::E2m1);
    let grid = match scales_of(scales, &shape, stated) {
        Ok(grid) => grid,
        Err(what) => {
            return Group::ambiguous(name.to_owned(), codes, parts, "fp8", Ambiguous { what, advice: GIVE_CONFIG });
        }
    };
    let [.., rows, columns] = *shape else {
        let what = "its codes are not a matrix".to_owned();
        return Group::ambiguous(name.to_owned(), codes, parts, "fp8", Ambiguous { what, advice: GIVE_CONFIG });
    };
    let bits = if codec == Codes::E2m1 { 4 } else { 8 };
    let described =
        described(json!({ "method": "fp8", "type": type_of(&codec), "bits": bits, "blockSize": grid.block }));
    let scheme = Grid::new(rows, columns, codec, grid);
    Group { name: name.to_owned(), dtype: Dtype::BF16, shape, parts, scheme: Arc::new(scheme), described }
}

/// The name of the type of codes.
pub(super) fn type_of(codes: &Codes) -> String {
    match codes {
        Codes::E2m1 => "e2m1".to_owned(),
        Codes::Elements(Dtype::F8_E4M3) => "e4m3".to_owned(),
        Codes::Elements(Dtype::F8_E5M2) => "e5m2".to_owned(),
        Codes::Elements(dtype) => dtype.name().to_owned(),
        Codes::Stream { bits, .. } | Codes::Signed { bits } | Codes::Words { bits, .. } => format!("int{bits}"),
    }
}
