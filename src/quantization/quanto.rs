//! optimum-quanto: qint8 and qfloat8. Of qint4 and qint2, files do not state the shape.
//!
//! Source: PyPI `optimum-quanto` 0.2.7 (`QTensor.dequantize`). Values are rounded to the dtype of the scales.

use super::codes::Codes;
use super::float8::{is_float8, type_of};
use super::found::{Ambiguous, Group, LOAD_PARTS, described};
use super::grid::{Grid, Rounding};
use super::scale_grid::scales_of;
use super::stored::Stored;
use crate::dtype::Dtype;
use serde_json::json;
use std::sync::Arc;

/// Recognizes the tensor whose scales are `{name}._scale`.
pub(super) fn detect(stored: &Stored<'_>, name: &str) -> Option<Group> {
    let get = |part: &str| stored.get(&format!("{name}.{part}"));
    let scales = get("_scale").filter(|scales| scales.is(&[Dtype::F32, Dtype::F16, Dtype::BF16]))?;
    if let (Some(codes), Some(shift)) = (get("_data._data"), get("_shift")) {
        let parts = vec![("_data._data", codes.at), ("_scale", scales.at), ("_shift", shift.at)];
        let what =
            "it is qint4 or qint2 of optimum-quanto, whose files do not state the shape of the tensor".to_owned();
        let reason = Ambiguous { what, advice: LOAD_PARTS };
        return Some(Group::ambiguous(name.to_owned(), &codes, parts, "quanto", reason));
    }
    let codes = get("_data").filter(|codes| codes.is(&[Dtype::I8]) || is_float8(codes.dtype))?;
    let parts = vec![("_data", codes.at), ("_scale", scales.at)];
    let shape = codes.shape.to_vec();
    let grid = scales_of(&scales, &shape, None).ok()?;
    let [.., rows, columns] = *shape else { return None };
    let codec = Codes::Elements(codes.dtype.clone());
    let described = described(json!({ "method": "quanto", "type": type_of(&codec), "bits": 8 }));
    let scheme = Grid { rounding: Rounding::End(scales.dtype.clone()), ..Grid::new(rows, columns, codec, grid) };
    let (name, dtype) = (name.to_owned(), scales.dtype.clone());
    Some(Group { name, dtype, shape, parts, scheme: Arc::new(scheme), described })
}
