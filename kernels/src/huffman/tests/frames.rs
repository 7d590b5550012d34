//! Frames of the C library, split into blocks and put together again.

use super::super::*;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, ParamSwitch, Strategy};

/// Errors for damage that the C library does not detect: see the documentation of the module `huffman`.
const STRICTER: [&str; 5] = [
    "a stream without the 1 that marks its end",
    "a stream ends before its last symbol",
    "a stream continues after its last symbol",
    "a weight of more than 11 bits",
    "a Huffman code that is not complete or has more than 11 bits",
];

/// Distributions of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Data {
    Uniform,
    Exponents,
    Skewed,
    Constant,
    TwoSymbols,
    ManySymbols,
    /// Codes of 6 and 7 bits.
    Flat,
}

impl Data {
    pub(super) const ALL: [Data; 7] =
        [Data::Uniform, Data::Exponents, Data::Skewed, Data::Constant, Data::TwoSymbols, Data::ManySymbols, Data::Flat];

    pub(super) fn bytes(self, length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15 ^ length as u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as u32
        };
        let mut next = move || match self {
            Data::Uniform => random() as u8,
            Data::Exponents => {
                let sum: f32 = (0..6).map(|_| random() as f32 - (1 << 23) as f32).sum();
                ((sum / 1e9).to_bits() >> 24) as u8
            }
            Data::Skewed => random().trailing_zeros().min(random() % 40) as u8,
            Data::Constant => 5,
            Data::TwoSymbols => [3, 200][usize::from(random() % 5 == 0)],
            Data::Flat => (random() % 100) as u8,
            Data::ManySymbols => ((random() % 256) * (random() % 256) / 256) as u8,
        };
        (0..length).map(|_| next()).collect()
    }
}

/// Compresses with literals only: no match is as long as the target length.
pub(super) fn compress(data: &[u8], max_block_bytes: usize) -> Vec<u8> {
    let mut context = CCtx::create();
    for parameter in [
        CParameter::CompressionLevel(1),
        CParameter::Strategy(Strategy::ZSTD_fast),
        CParameter::TargetLength(128 << 10),
        CParameter::LiteralCompressionMode(ParamSwitch::Enable),
        CParameter::MaxBlockSize(max_block_bytes.try_into().unwrap()),
    ] {
        context.set_parameter(parameter).unwrap();
    }
    let mut frame = Vec::with_capacity(zstd::zstd_safe::compress_bound(data.len()) + 1000);
    context.compress2(&mut frame, data).unwrap();
    frame
}

/// The blocks of a frame with their headers.
pub(super) fn split(frame: &[u8]) -> Vec<&[u8]> {
    let descriptor = frame[4];
    let is_single_segment = descriptor & 0x20 != 0;
    let content_size_bytes = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        log => 1 << log,
    };
    let mut rest = &frame[5 + usize::from(!is_single_segment) + content_size_bytes..];
    let mut blocks = Vec::new();
    loop {
        let number = u32::from_le_bytes([rest[0], rest[1], rest[2], 0]);
        let content = if number >> 1 & 3 == 1 { 1 } else { number as usize >> 3 };
        let (block, after) = rest.split_at(3 + content);
        blocks.push(block);
        rest = after;
        if number & 1 == 1 {
            return blocks;
        }
    }
}

/// A frame of compressed blocks, without a content size, and with a window of 128 KiB.
pub(super) fn frame_of(contents: &[&[u8]]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for (number, content) in contents.iter().enumerate() {
        let is_last = usize::from(number + 1 == contents.len());
        frame.extend_from_slice(&(is_last | 2 << 1 | content.len() << 3).to_le_bytes()[..3]);
        frame.extend_from_slice(content);
    }
    frame
}

/// Decodes blocks with their headers. `None` if one has sequences.
pub(super) fn try_decode(blocks: &[&[u8]]) -> Result<Option<Vec<u8>>, Malformed> {
    let mut literals = Literals::new();
    let mut all = Vec::new();
    let mut decoded = vec![0; MAX_BLOCK_BYTES];
    for block in blocks {
        let (header, content) = block.split_at(3);
        match header[0] >> 1 & 3 {
            0 => all.extend_from_slice(content),
            1 => all.resize(
                all.len() + (u32::from_le_bytes([header[0], header[1], header[2], 0]) >> 3) as usize,
                content[0],
            ),
            _ => match literals.decode_block(content, &mut decoded)? {
                Outcome::Decoded(length) => all.extend_from_slice(&decoded[..length]),
                Outcome::HasSequences => return Ok(None),
            },
        }
    }
    Ok(Some(all))
}

pub(super) fn decode(blocks: &[&[u8]]) -> Result<Vec<u8>, Malformed> {
    try_decode(blocks).map(|decoded| decoded.unwrap())
}

pub(super) fn decode_in_c(frame: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut decoded = Vec::with_capacity(1 << 20);
    DCtx::create().decompress(&mut decoded, frame).map_err(zstd::zstd_safe::get_error_name)?;
    Ok(decoded)
}

/// Checks that both decoders return the same bytes or fail.
pub(super) fn compare_with_c(frame: &[u8]) {
    let in_c = decode_in_c(frame);
    match (try_decode(&split(frame)), in_c) {
        (Ok(None), _) | (Err(_), Err(_)) => {}
        (Ok(Some(decoded)), Ok(in_c)) => assert!(decoded == in_c, "the bytes differ from the C library"),
        (Err(Malformed(why)), Ok(_)) => assert!(STRICTER.contains(&why), "only the C library accepts: {why}"),
        (Ok(Some(_)), Err(why)) => panic!("the C library refuses: {why}"),
    }
}
