//! Digests of the decoded bytes of tensors.

use super::progress::Bar;
use weightstream::error::Result;
use weightstream::index::{Component, Digest, Hasher, Tensor};
use weightstream::progress::Progress;
use weightstream::write::Input;

/// Reads a component piece by piece, and returns the SHA-256 of its decoded bytes.
pub(super) fn sha256(input: &dyn Input, tensor: &Tensor, component: &Component, bar: &Bar) -> Result<String> {
    let mut hasher = Hasher::new(Digest::Sha256([0; 32]));
    input.read_pieces(tensor, &component.role, &mut |bytes| {
        hasher.update(bytes);
        bar.advanced(bytes.len() as u64);
        Ok(())
    })?;
    Ok(hasher.finish().to_string())
}
