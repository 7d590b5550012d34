//! Frames without matches, as the writer of zTensor makes of the exponents of floats, and a fast decoder of them.
//!
//! Such frames consist of blocks that have only literals. The general decoder does not take part in them. If a later
//! block has matches, it decodes the frame from its start, so the blocks until then are kept. This is bounded by the
//! length of the frames: see [`MAX_FRAME_BYTES`].

use super::window::window;
use structured_zstd::decoding::{FrameDecoder, errors::FrameDecoderError};
use weightstream_kernels::huffman::{Literals, MAX_BLOCK_BYTES, Outcome};

/// The maximum decoded length of a frame. Frames of seekable data are no longer.
const MAX_FRAME_BYTES: u64 = 1 << 20;

/// The length of the header of a block (RFC 8878, 3.1.1.2).
const HEADER_BYTES: usize = 3;

/// A frame that may have no matches.
pub(super) struct LiteralFrame {
    literals: Literals,
    /// Whether the current frame is decoded here.
    is_active: bool,
    /// The stated decoded bytes that are missing.
    left: u64,
    /// The blocks so far, with their headers.
    blocks: Vec<u8>,
}

/// What a block decodes to.
pub(super) enum Decoded {
    /// That many bytes. `is_last` is whether it ends the frame.
    Bytes { count: usize, is_last: bool },
    /// The general decoder must decode the frame.
    Unknown,
}

impl LiteralFrame {
    pub(super) fn new() -> Self {
        LiteralFrame { literals: Literals::new(), is_active: false, left: 0, blocks: Vec::new() }
    }

    /// Begins a frame with this header, which states its decoded length.
    pub(super) fn begin(&mut self, header: &[u8], content_size: u64) {
        self.is_active = (1..=MAX_FRAME_BYTES).contains(&content_size) && is_eligible(header);
        self.left = content_size;
        self.blocks.clear();
        self.literals.reset();
    }

    /// Decodes the next block to the start of `decoded`, if it and those before it have no matches. What is refused
    /// here, the general decoder refuses with its reason.
    pub(super) fn decode(&mut self, header: [u8; HEADER_BYTES], block: &[u8], decoded: &mut [u8]) -> Decoded {
        if !self.is_active {
            return Decoded::Unknown;
        }
        let [low, middle, high] = header;
        let fields = u32::from_le_bytes([low, middle, high, 0]);
        let (is_last, kind, size) = (fields & 1 == 1, fields >> 1 & 3, (fields >> 3) as usize);
        let count = match kind {
            0 => copy(decoded, block),
            1 => decoded.get_mut(..size).zip(block.first()).map(|(into, byte)| {
                into.fill(*byte);
                size
            }),
            2 => match decoded.get_mut(..MAX_BLOCK_BYTES).map(|into| self.literals.decode_block(block, into)) {
                Some(Ok(Outcome::Decoded(count))) => Some(count),
                _ => None,
            },
            _ => None,
        };
        let left = count.and_then(|count| self.left.checked_sub(count as u64));
        match (count, left.filter(|left| is_last == (*left == 0))) {
            (Some(count), Some(left)) => {
                self.left = left;
                self.blocks.extend_from_slice(&header);
                self.blocks.extend_from_slice(block);
                Decoded::Bytes { count, is_last }
            }
            _ => Decoded::Unknown,
        }
    }

    /// Passes the blocks so far to the general decoder, which then continues.
    ///
    /// # Errors
    /// Those of the decoder.
    pub(super) fn replay(&mut self, frame: &mut FrameDecoder, decoded: &mut [u8]) -> Result<(), FrameDecoderError> {
        self.is_active = false;
        let mut rest = self.blocks.as_slice();
        while let Some((header, blocks)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let (length, _) = frame.block_content_len(*header)?;
            let (block, next) = blocks.split_at_checked(length).unwrap_or((blocks, &[]));
            frame.decode_block(*header, block, decoded)?;
            rest = next;
        }
        self.blocks.clear();
        Ok(())
    }
}

/// An encoder of frames without matches.
///
/// # Errors
/// Those of the C library.
#[cfg(writes)]
pub(crate) fn encoder() -> std::io::Result<zstd::bulk::Compressor<'static>> {
    use zstd::zstd_safe::{CParameter, ParamSwitch, Strategy};
    let mut encoder = zstd::bulk::Compressor::new(1)?;
    // A match would have to be as long as a block. The window is the smallest that does not limit the size of blocks.
    encoder.set_parameter(CParameter::Strategy(Strategy::ZSTD_fast))?;
    encoder.set_parameter(CParameter::TargetLength(MAX_BLOCK_BYTES as u32))?;
    encoder.set_parameter(CParameter::LiteralCompressionMode(ParamSwitch::Enable))?;
    encoder.set_parameter(CParameter::WindowLog(MAX_BLOCK_BYTES.ilog2()))?;
    Ok(encoder)
}

/// Bytes as the exponents of weights: independent, and few of them are frequent. They have two bits of entropy each.
#[cfg(all(test, writes))]
pub(crate) fn exponents(count: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        120 - ((state >> 33 | 1 << 31).trailing_zeros() as u8)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Whether a frame has no checksum and no dictionary, and its blocks may have any length (RFC 8878, 3.1.1.1).
fn is_eligible(header: &[u8]) -> bool {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    const CHECKSUM_OR_DICTIONARY: u8 = 0b111;
    let Some([descriptor, next]) = header.get(4..6) else { return false };
    let has_any_length = descriptor & SINGLE_SEGMENT != 0 || window(*next) >= MAX_BLOCK_BYTES as u64;
    descriptor & CHECKSUM_OR_DICTIONARY == 0 && has_any_length
}

fn copy(decoded: &mut [u8], block: &[u8]) -> Option<usize> {
    decoded.get_mut(..block.len())?.copy_from_slice(block);
    Some(block.len())
}

#[cfg(all(test, writes))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::{encoder, exponents};
    use crate::codec::zstd::{DecodedLength, Zstd};
    use crate::error::Result;

    fn decode(stored: &[u8], length: usize, chunk_bytes: usize) -> Result<Vec<u8>> {
        let mut decoded = Vec::new();
        let mut decoder = Zstd::new(stored.len() as u64, DecodedLength::Exactly(length as u64));
        for chunk in stored.chunks(chunk_bytes) {
            decoder.push(chunk, &mut |bytes| {
                decoded.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        decoder.finish().map(|()| decoded)
    }

    fn literals(data: &[u8]) -> Vec<u8> {
        encoder().unwrap().compress(data).unwrap()
    }

    /// The blocks of a frame of 65,792 bytes or more and of one block, whose length takes four bytes.
    fn block(frame: &[u8]) -> &[u8] {
        assert_eq!(frame[4], 0b1010_0000, "a single segment without a checksum");
        &frame[9..]
    }

    #[test]
    fn frames_without_matches_decode_from_any_chunks() {
        let data = exponents(700_000);
        let stored = literals(&data);
        for chunk_bytes in [1, 1000, 100_000, stored.len()] {
            assert!(decode(&stored, data.len(), chunk_bytes).unwrap() == data, "{chunk_bytes}");
        }
        let two = [&stored[..], &literals(&data[..1000])].concat();
        assert!(decode(&two, data.len() + 1000, 4096).unwrap() == [&data, &data[..1000]].concat());
    }

    #[test]
    fn matches_after_literals_are_decoded_by_the_general_decoder() {
        let (random, repeated) = (exponents(100_000), b"weights of a tensor, ".repeat(4000));
        let (first, second) = (literals(&random), zstd::bulk::compress(&repeated, 3).unwrap());
        let length = random.len() + repeated.len();
        let header = [&[0x28, 0xb5, 0x2f, 0xfd, 0b1010_0000], &(length as u32).to_le_bytes()[..]].concat();
        let mut stored = [&header, block(&first), block(&second)].concat();
        stored[header.len()] &= !1; // the first block is not the last one
        assert!(decode(&stored, length, 333).unwrap() == [random, repeated].concat());
        assert!(decode(&stored, length - 1, 333).is_err());
    }

    #[test]
    fn every_truncation_and_a_wrong_length_are_refused() {
        let data = exponents(70_000);
        let stored = literals(&data);
        for end in (0..stored.len()).step_by(97) {
            assert!(decode(&stored[..end], data.len(), 5000).is_err(), "{end}");
        }
        let mut longer = stored.clone();
        longer[5] += 1; // the stated length
        assert!(decode(&longer, data.len() + 1, 5000).is_err());
    }
}
