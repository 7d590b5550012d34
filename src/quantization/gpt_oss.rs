//! The experts of GPT-OSS: MXFP4 in blocks of 32.
//!
//! Source: transformers 5.24 (`integrations/mxfp4.py`), which transposes the result for its own parameters; here the
//! shape is that of the file. All values are exact in BF16.

use super::codes::Codes;
use super::found::{Group, described};
use super::grid::{Grid, Scales};
use super::stored::Stored;
use crate::dtype::Dtype;
use serde_json::json;
use std::sync::Arc;

/// The number of bytes and elements of a block.
const BLOCK_BYTES: u64 = 16;
const BLOCK_ELEMENTS: u64 = 32;

/// Recognizes the tensor whose codes are `{name}_blocks`.
pub(super) fn detect(stored: &Stored<'_>, name: &str) -> Option<Group> {
    let codes = stored.get(&format!("{name}_blocks")).filter(|codes| codes.is(&[Dtype::U8]))?;
    let scales = stored.get(&format!("{name}_scales")).filter(|scales| scales.is(&[Dtype::U8]))?;
    let [leading @ .., rows, groups, BLOCK_BYTES] = codes.shape else { return None };
    if scales.shape.split_last() != Some((groups, &[leading, &[*rows]].concat())) {
        return None;
    }
    let columns = groups.checked_mul(BLOCK_ELEMENTS)?;
    let count = rows.checked_mul(*groups)?;
    let grid = Scales { dtype: Dtype::F8_E8M0, block: [1, BLOCK_ELEMENTS], count, columns: *groups };
    let scheme = Grid::new(*rows, columns, Codes::E2m1, grid);
    let mut shape = leading.to_vec();
    shape.extend([*rows, columns]);
    let parts = vec![("blocks", codes.at), ("scales", scales.at)];
    let described = described(json!({ "method": "mxfp4", "bits": 4, "groupSize": BLOCK_ELEMENTS }));
    Some(Group { name: name.to_owned(), dtype: Dtype::BF16, shape, parts, scheme: Arc::new(scheme), described })
}
