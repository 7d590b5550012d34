//! Frames without matches, as the writer of zTensor makes of the exponents of floats, and a fast decoder of them.
//!
//! Such frames consist of blocks that have only literals. The general decoder does not take part in them, and does not
//! allocate their windows. If a later block has matches, it decodes the frame from its start, so the blocks until then
//! are kept. This is bounded by the length of the frames: see [`MAX_FRAME_BYTES`].

use super::limits::SMALL_WINDOW_BYTES;
use super::window::{SINGLE_SEGMENT, content_size, window};
use std::ops::RangeInclusive;
use structured_zstd::decoding::{FrameDecoder, errors::FrameDecoderError};
use weightstream_kernels::huffman::{Literals, MAX_BLOCK_BYTES, Outcome};

/// The maximum decoded length of a frame. Frames of seekable data are no longer.
const MAX_FRAME_BYTES: u64 = 1 << 20;

/// The windows of frames whose blocks may have any length, and that the general decoder accepts.
const WINDOWS: RangeInclusive<u64> = MAX_BLOCK_BYTES as u64..=SMALL_WINDOW_BYTES;

/// The maximum stored length of the blocks of a frame. Blocks that do not compress are longer than what they decode to.
const MAX_KEPT_BYTES: usize = 2 * MAX_FRAME_BYTES as usize;

/// The start of a frame that is not of an old version.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The length of the header of a block (RFC 8878, 3.1.1.2).
const HEADER_BYTES: usize = 3;

/// A frame that may have no matches.
pub(super) struct LiteralFrame {
    literals: Literals,
    /// The header of the current frame; empty if the frame is not decoded here.
    header: Vec<u8>,
    /// The stated decoded bytes that are missing.
    left: u64,
    /// The blocks so far, with their headers.
    blocks: Vec<u8>,
}

/// The fields of the header of a block (RFC 8878, 3.1.1.2).
struct Block {
    is_last: bool,
    kind: u32,
    /// The number of stored bytes, or that of decoded ones if a byte is repeated.
    size: usize,
}

/// The kinds of blocks that are not reserved.
const RAW: u32 = 0;
const RLE: u32 = 1;
const COMPRESSED: u32 = 2;

impl Block {
    fn of([low, middle, high]: [u8; HEADER_BYTES]) -> Self {
        let fields = u32::from_le_bytes([low, middle, high, 0]);
        Block { is_last: fields & 1 == 1, kind: fields >> 1 & 3, size: (fields >> 3) as usize }
    }
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
        LiteralFrame { literals: Literals::new(), header: Vec::new(), left: 0, blocks: Vec::new() }
    }

    /// Begins a frame with this header. Returns its decoded length if it is decoded here, unless a block has matches.
    pub(super) fn begin(&mut self, header: &[u8]) -> Option<u64> {
        self.header.clear();
        let (descriptor, rest) = eligible(header)?;
        self.left = content_size(descriptor, rest).filter(|length| (1..=MAX_FRAME_BYTES).contains(length))?;
        self.header.extend_from_slice(header);
        self.blocks.clear();
        self.literals.reset();
        Some(self.left)
    }

    /// The number of stored bytes of the block with this header; `None` if the general decoder must decode the frame.
    pub(super) fn block_length(&self, header: [u8; HEADER_BYTES]) -> Option<usize> {
        let Block { kind, size, .. } = Block::of(header);
        let is_known = self.is_active() && size <= MAX_BLOCK_BYTES && kind <= COMPRESSED;
        is_known.then_some(if kind == RLE { 1 } else { size })
    }

    /// Whether the current frame is decoded here.
    fn is_active(&self) -> bool {
        !self.header.is_empty()
    }

    /// Decodes the next block to the start of `decoded`, if it and those before it have no matches. What is refused
    /// here, the general decoder refuses with its reason.
    pub(super) fn decode(&mut self, header: [u8; HEADER_BYTES], block: &[u8], decoded: &mut [u8]) -> Decoded {
        if !self.is_active() {
            return Decoded::Unknown;
        }
        let Block { is_last, kind, size } = Block::of(header);
        let count = match kind {
            RAW => copy(decoded, block),
            RLE => decoded.get_mut(..size).zip(block.first()).map(|(into, byte)| {
                into.fill(*byte);
                size
            }),
            COMPRESSED => {
                match decoded.get_mut(..MAX_BLOCK_BYTES).map(|into| self.literals.decode_block(block, into)) {
                    Some(Ok(Outcome::Decoded(count))) => Some(count),
                    _ => None,
                }
            }
            _ => None,
        };
        // Blocks without bytes do not end a frame: there may be any number of them.
        let count = count.filter(|_| self.blocks.len() + block.len() <= MAX_KEPT_BYTES);
        let left = count.and_then(|count| self.left.checked_sub(count as u64));
        match (count, left.filter(|left| is_last == (*left == 0))) {
            (Some(count), Some(left)) => {
                if !is_last {
                    if self.blocks.is_empty() {
                        self.blocks.reserve_exact(self.left as usize); // growing would take more
                    }
                    self.blocks.extend_from_slice(&header);
                    self.blocks.extend_from_slice(block);
                }
                self.left = left;
                Decoded::Bytes { count, is_last }
            }
            _ => Decoded::Unknown,
        }
    }

    /// Passes the frame so far to the general decoder, if it was decoded here. The general decoder then continues.
    ///
    /// # Errors
    /// Those of the decoder.
    pub(super) fn replay(&mut self, frame: &mut FrameDecoder, decoded: &mut [u8]) -> Result<(), FrameDecoderError> {
        if !self.is_active() {
            return Ok(());
        }
        frame.reset(self.header.as_slice())?;
        self.header.clear();
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

/// The descriptor of a frame without a checksum and a dictionary whose blocks may have any length (RFC 8878, 3.1.1.1),
/// and the bytes of the header after the window. `None` for other frames.
fn eligible(header: &[u8]) -> Option<(u8, &[u8])> {
    const CHECKSUM_DICTIONARY_OR_RESERVED: u8 = 0b1111;
    let (descriptor, rest) = header.strip_prefix(&MAGIC)?.split_first()?;
    let rest = match descriptor & SINGLE_SEGMENT {
        0 => rest.split_first().filter(|(byte, _)| WINDOWS.contains(&window(**byte)))?.1,
        _ => rest,
    };
    (descriptor & CHECKSUM_DICTIONARY_OR_RESERVED == 0).then_some((*descriptor, rest))
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
