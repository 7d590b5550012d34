//! Digests of the decoded bytes of tensors.

use super::progress::Bar;
use super::warn;
use weightstream::Result;
use weightstream::internals::index::{Component, Digest, Hasher, Tensor};
use weightstream::internals::progress::Progress;
use weightstream::internals::write::Input;

/// Warns of files whose digests were not compared, because only a small part of them was read.
pub(super) fn warn_of(not_compared: &[String]) {
    for file in not_compared {
        warn(&format!(
            "{file}: the tensors that were read have no digest, and the digest of the file was not compared, because \
             that needs all of its bytes. `weightstream verify` compares it."
        ));
    }
}

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
