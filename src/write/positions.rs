//! Recognises position ids: buffers of BERT and its relatives with the values 0, 1, 2 … that readers compute. Older
//! checkpoints contain them, as I64, which some formats do not have.

use super::input::Input;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::index::Tensor;

/// Whether the tensor has the name of position ids and their values, so that a format that cannot store it loses
/// nothing without it.
///
/// # Errors
/// Errors of reading the tensor.
pub(super) fn are_positions(input: &dyn Input, tensor: &Tensor) -> Result<bool> {
    let has_name = tensor.name.rsplit('.').next() == Some("position_ids");
    let [component] = tensor.components.as_slice() else { return Ok(false) };
    if !has_name || tensor.dtype != Dtype::I64 {
        return Ok(false);
    }
    let (mut at, mut differs) = (0u64, false);
    input.read_pieces(tensor, &component.role, &mut |bytes| {
        for byte in bytes {
            let position = at / 8;
            differs |= *byte != (position >> (8 * (at % 8))) as u8;
            at += 1;
        }
        Ok(())
    })?;
    Ok(!differs)
}
