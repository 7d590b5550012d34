//! Decodes LZ4. The functions of `lz4_flex` are inlined into the crate that calls them, and so have its level.

pub use lz4_flex::block::DecompressError;

/// Decodes one block, which does not refer to earlier ones. Returns the number of decoded bytes.
///
/// # Errors
/// If the block is damaged, or does not fit into `decoded`.
#[inline(never)]
pub fn decode_block(block: &[u8], decoded: &mut [u8]) -> Result<usize, DecompressError> {
    lz4_flex::block::decompress_into(block, decoded)
}
