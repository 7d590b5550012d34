//! Zstandard as tools write it.

/// `data`, compressed.
pub(crate) fn compress(data: &[u8]) -> Vec<u8> {
    ::zstd::stream::encode_all(data, 3).unwrap()
}
