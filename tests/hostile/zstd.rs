//! Zstandard compression with the reference library.

pub(crate) fn compress(data: &[u8]) -> Vec<u8> {
    ::zstd::stream::encode_all(data, 3).unwrap()
}
