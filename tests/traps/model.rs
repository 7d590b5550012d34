//! The model that the traps serve.

use super::bytes;
use std::sync::LazyLock;

/// The tensors of [`FILE`]. The bytes that are read together with the header end inside the first, so no bytes of the
/// others are known when the file is open.
pub(crate) static TENSORS: LazyLock<[(&str, Vec<u8>); 4]> = LazyLock::new(|| {
    let noise = |name, length| (name, bytes::noise(length as u64, length));
    [noise("first", 100_000), noise("second", 300_000), noise("third", 2_000_000), noise("fourth", 150_000)]
});

/// A SafeTensors file. It has no checksum, so only the loader itself can prevent wrong bytes.
pub(crate) static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let shapes: Vec<_> = TENSORS.iter().map(|(_, data)| [data.len() as u64]).collect();
    let tensors: Vec<_> =
        TENSORS.iter().zip(&shapes).map(|((name, data), shape)| (*name, "U8", &shape[..], data.clone())).collect();
    bytes::safetensors(None, &tensors)
});

/// The byte range of a tensor in [`FILE`].
pub(crate) fn range_of(name: &str) -> std::ops::Range<usize> {
    let at = TENSORS.iter().position(|(known, _)| *known == name).unwrap();
    let following: usize = TENSORS[at + 1..].iter().map(|(_, data)| data.len()).sum();
    let end = FILE.len() - following;
    end - TENSORS[at].1.len()..end
}
