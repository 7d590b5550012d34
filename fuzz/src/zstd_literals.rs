//! Decodes blocks of Zstandard without sequences with the kernel for them and with the C library.

use crate::frames::split;
use weightstream_kernels::huffman::{Literals, MAX_BLOCK_BYTES, Malformed, Outcome};
use zstd::zstd_safe::{DCtx, get_error_name};

/// The maximum number of blocks. The rest of a frame is ignored, because the memory of a fuzz target is limited.
const MAX_BLOCKS: usize = 32;

/// Errors for damage that the C library does not detect: see the documentation of the kernel.
const STRICTER: [&str; 5] = [
    "a stream without the 1 that marks its end",
    "a stream ends before its last symbol",
    "a stream continues after its last symbol",
    "a weight of more than 11 bits",
    "a Huffman code that is not complete or has more than 11 bits",
];

/// Compares the results for the blocks of the first frame of `stored`, as far as the kernel decodes them. Both must
/// return the same bytes or fail.
pub fn compare_with_c(stored: &[u8]) {
    let Some((_, mut blocks)) = split(stored) else { return };
    blocks.truncate(MAX_BLOCKS);
    if blocks.iter().any(|block| is_out_of_scope(block)) {
        return;
    }
    let (result, count) = decode(&blocks);
    blocks.truncate(count);
    match (result, decode_in_c(&frame_of(&blocks))) {
        (Ok(decoded), Ok(expected)) => assert!(decoded == expected, "the bytes differ from the C library"),
        (Err(_), Err(_)) => {}
        (Err(why), Ok(_)) => assert!(STRICTER.contains(&why.to_string().as_str()), "only the C library accepts: {why}"),
        (Ok(_), Err(why)) => panic!("the C library refuses: {why}"),
    }
}

/// Whether a block is one that no caller passes on: of a reserved kind, too long, or, although compressed, empty.
fn is_out_of_scope(block: &[u8]) -> bool {
    let (kind, length) = header(block);
    kind == 3 || length > MAX_BLOCK_BYTES || kind == 2 && length == 0
}

/// The kind of a block and its length: 0 for raw, 1 for one value, 2 for compressed.
fn header(block: &[u8]) -> (u32, usize) {
    let number = u32::from_le_bytes([block[0], block[1], block[2], 0]);
    (number >> 1 & 3, number as usize >> 3)
}

/// Decodes blocks up to the first one with sequences. Also returns the number of blocks that the result is of.
fn decode(blocks: &[&[u8]]) -> (Result<Vec<u8>, Malformed>, usize) {
    let mut literals = Literals::new();
    let mut all = Vec::new();
    let mut decoded = vec![0; MAX_BLOCK_BYTES];
    for (number, block) in blocks.iter().enumerate() {
        let (kind, length) = header(block);
        let content = &block[3..];
        match kind {
            0 => all.extend_from_slice(content),
            1 => all.resize(all.len() + length, content[0]),
            _ => match literals.decode_block(content, &mut decoded) {
                Ok(Outcome::Decoded(length)) => all.extend_from_slice(&decoded[..length]),
                Ok(Outcome::HasSequences) => return (Ok(all), number),
                Err(error) => return (Err(error), number + 1),
            },
        }
    }
    (Ok(all), blocks.len())
}

/// A frame of these blocks, without a content size, and with a window of [`MAX_BLOCK_BYTES`].
fn frame_of(blocks: &[&[u8]]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for block in blocks {
        let start = frame.len();
        frame.extend_from_slice(block);
        frame[start] &= !1;
    }
    // An empty raw block, as the last one.
    frame.extend_from_slice(&[1, 0, 0]);
    frame
}

fn decode_in_c(frame: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut decoded = Vec::with_capacity(MAX_BLOCKS * MAX_BLOCK_BYTES);
    DCtx::create().decompress(&mut decoded, frame).map_err(get_error_name)?;
    Ok(decoded)
}
