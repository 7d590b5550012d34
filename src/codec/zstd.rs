//! Decodes Zstandard (RFC 8878) incrementally: consecutive frames, with or without a content size, no dictionaries.

pub(crate) mod literals;
mod window;

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{BlockEnd, Component};
use literals::{Decoded, LiteralFrame};
use structured_zstd::decoding::{ContentChecksum, FrameDecoder, errors::FrameDecoderError, frame_header_input_needed};

/// The maximum window size. The decoder keeps the window in memory. This is the limit of the reference decoder, so that
/// the output of all levels up to 22 can be read. Prevents a frame from claiming a window of terabytes.
pub const MAX_WINDOW_BYTES: u64 = 128 << 20;

/// The bytes that are kept of frames of any length: levels up to 19 need 8 MiB. The decoder keeps the window in memory.
/// Of a frame with a larger window, at least as much is kept as data of its stored length needs: see [`WINDOW_RATIO`].
pub const SMALL_WINDOW_BYTES: u64 = 16 << 20;

/// The additional bytes that are kept for each stored byte. Levels 20 to 22 use windows as long as the data, and rarely
/// compress better than this ratio. Prevents a frame of a few kilobytes from allocating [`MAX_WINDOW_BYTES`]: it fails
/// only if it refers to bytes that were not kept.
pub const WINDOW_RATIO: u64 = 16;

/// The maximum decoded size of data without a stated length. Prevents a file of a few kilobytes from exhausting memory.
pub const MAX_UNSTATED_BYTES: u64 = 1 << 30;

/// The decoded size that data of any stored length may have without a stated length.
pub const SMALL_UNSTATED_BYTES: u64 = 16 << 20;

/// The additional decoded size for each stored byte of data without a stated length. Indices of sparse tensors, which
/// compress best, take an eighth of their size. Prevents a file of a few kilobytes from decoding to
/// [`MAX_UNSTATED_BYTES`].
pub const UNSTATED_RATIO: u64 = 16;

/// A part of the decoder's message for a block that refers to bytes before the window.
const BEYOND_WINDOW: &str = "OffsetTooBig";

/// The maximum decoded size of a block (RFC 8878, 3.1.1.2.4).
const MAX_BLOCK_BYTES: usize = 128 << 10;

/// The maximum compression ratio: an RLE block of 4 bytes (a header and a byte) can decode to a full block.
const MAX_RATIO: u64 = (MAX_BLOCK_BYTES / 4) as u64;

/// Checks a claimed decoded length against the stored length.
///
/// # Errors
/// `FORMAT` if no `stored` bytes of Zstandard can decode to `decoded` bytes.
pub fn check_lengths(stored: u64, decoded: u64) -> Result<()> {
    if decoded / MAX_RATIO > stored {
        return Err(malformed(format!("{stored} bytes of zstd cannot decode to {decoded}")));
    }
    Ok(())
}

/// Returns the maximum decoded size of `stored` bytes without a stated length.
pub fn max_unstated(stored: u64) -> u64 {
    SMALL_UNSTATED_BYTES.saturating_add(stored.saturating_mul(UNSTATED_RATIO)).min(MAX_UNSTATED_BYTES)
}

/// Decodes the frames of one component from chunks of any length. Buffers a block and the frame's window.
pub struct Zstd {
    stored_left: u64,
    decoded_left: u64,
    /// The initial value of `decoded_left`.
    limit: u64,
    length: DecodedLength,
    step: Step,
    /// Whether the current call has emitted bytes.
    has_emitted: bool,
    /// The input of an incomplete step.
    pending: Vec<u8>,
    frame: Box<FrameDecoder>,
    literal_frame: Box<LiteralFrame>,
    /// The largest window that is kept.
    max_window: u64,
    /// The window of the current frame, if less is kept.
    claimed_window: Option<u64>,
    decoded: Vec<u8>,
    /// The end of the input and output of complete steps.
    position: BlockEnd,
    frames: Vec<BlockEnd>,
}

/// The known constraints on the decoded length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedLength {
    /// Exactly this number of bytes.
    Exactly(u64),
    /// A multiple of `element_bytes`, and at most `limit` bytes.
    ElementsOf {
        /// The size of an element in bytes.
        element_bytes: u64,
        /// The maximum length in bytes: the size that the tensor needs, or [`max_unstated`].
        limit: u64,
    },
}

/// The next step of the decoder.
#[derive(Debug, Clone, Copy)]
enum Step {
    FrameHeader,
    /// The remaining length of a skippable frame.
    Skipped(u64),
    BlockHeader,
    Block {
        header: [u8; 3],
        length: usize,
    },
    Checksum,
}

/// How far input is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// All of it.
    Consumed,
    /// Up to the first block with output.
    OneBlock,
}

impl Zstd {
    /// Creates the decoder of a component.
    pub fn of(component: &Component) -> Self {
        let element_bytes = component.dtype.block().map_or(1, |block| block.bytes);
        let stored = component.range.end - component.range.start;
        let limit = component.max_decoded_length.unwrap_or(u64::MAX).min(max_unstated(stored));
        let unstated = DecodedLength::ElementsOf { element_bytes, limit };
        Zstd::new(stored, component.decoded_length.map_or(unstated, DecodedLength::Exactly))
    }

    /// Creates a decoder of `stored` bytes.
    pub fn new(stored: u64, length: DecodedLength) -> Self {
        let mut frame = Box::new(FrameDecoder::new());
        let max_window = SMALL_WINDOW_BYTES.saturating_add(stored.saturating_mul(WINDOW_RATIO)).min(MAX_WINDOW_BYTES);
        frame.set_max_window_size(max_window).ok(); // fails only for invalid sizes
        frame.set_content_checksum(ContentChecksum::Verify);
        let limit = match length {
            DecodedLength::Exactly(decoded) => decoded,
            DecodedLength::ElementsOf { limit, .. } => limit,
        };
        Zstd {
            stored_left: stored,
            decoded_left: limit,
            limit,
            length,
            has_emitted: false,
            step: Step::FrameHeader,
            pending: Vec::new(),
            frame,
            literal_frame: Box::new(LiteralFrame::new()),
            max_window,
            claimed_window: None,
            decoded: vec![0; MAX_BLOCK_BYTES],
            position: BlockEnd::default(),
            frames: Vec::new(),
        }
    }

    /// See [`Decoder::push`](super::Decoder::push). Calls `emit` once per block.
    ///
    /// # Errors
    /// `FORMAT` if a frame is damaged, or there are more bytes than passed to `new`; `LIMIT` if it needs more memory or
    /// decodes to more bytes than is allowed; `UNSUPPORTED` if it needs a dictionary; `CHECKSUM` if its checksum does
    /// not match; errors of `emit`.
    pub fn push(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.advance(input, emit, Until::Consumed).map(drop)
    }

    /// See [`Decoder::push_some`](super::Decoder::push_some). Calls `emit` for at most one block.
    ///
    /// # Errors
    /// As for [`Zstd::push`].
    pub fn push_some(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        self.advance(input, emit, Until::OneBlock)
    }

    /// Consumes all input, or up to the first block with output. Returns the number of consumed bytes.
    fn advance(&mut self, all: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>, until: Until) -> Result<usize> {
        if all.len() as u64 > self.stored_left {
            return Err(malformed("there are more bytes than its zstd frames should have"));
        }
        self.has_emitted = false;
        let mut input = all;
        let outcome = self.take_steps(&mut input, emit, until);
        let consumed = all.len() - input.len();
        self.stored_left -= consumed as u64;
        outcome.map(|()| consumed)
    }

    fn take_steps(&mut self, input: &mut &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>, until: Until) -> Result<()> {
        while !(until == Until::OneBlock && self.has_emitted) {
            if let Step::Skipped(left) = &mut self.step {
                let (skipped, rest) = input.split_at(input.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                *input = rest;
                *left -= skipped.len() as u64;
                self.position.stored += skipped.len() as u64;
                if *left > 0 {
                    return Ok(());
                }
                self.step = Step::FrameHeader;
            }
            if self.pending.is_empty()
                && let Some((complete, rest)) = input.split_at_checked(self.needed(input)?)
            {
                *input = rest;
                self.take(complete, emit)?; // directly from the chunk: most blocks need no copy
                continue;
            }
            let missing = self.needed(&self.pending)?.saturating_sub(self.pending.len());
            if missing > 0 && input.is_empty() {
                return Ok(());
            }
            let (consumed, rest) = input.split_at(input.len().min(missing));
            self.pending.extend_from_slice(consumed);
            *input = rest;
            if self.needed(&self.pending)? == self.pending.len() {
                let mut complete = std::mem::take(&mut self.pending);
                self.take(&complete, emit)?;
                complete.clear();
                self.pending = complete;
            }
        }
        Ok(())
    }

    /// See [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if stored or decoded bytes are missing, or the last element is incomplete.
    pub fn finish(&self) -> Result<()> {
        let at_a_frame = matches!(self.step, Step::FrameHeader) && self.pending.is_empty();
        if self.stored_left > 0 || !at_a_frame {
            return Err(malformed("its last zstd frame is incomplete"));
        }
        match self.length {
            DecodedLength::Exactly(_) if self.decoded_left > 0 => Err(malformed(format!(
                "its zstd frames decode to {} bytes less than the index states",
                self.decoded_left
            ))),
            DecodedLength::ElementsOf { element_bytes: bytes, .. }
                if !(self.limit - self.decoded_left).is_multiple_of(bytes) =>
            {
                let decoded = self.limit - self.decoded_left;
                Err(malformed(format!("its zstd frames decode to {decoded} bytes, not a multiple of {bytes}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of input bytes of the next step, as far as its first bytes determine it.
    fn needed(&self, partial: &[u8]) -> Result<usize> {
        match self.step {
            Step::FrameHeader => frame_header_input_needed(partial, false).map_err(damaged),
            Step::Skipped(_) => Ok(0),
            Step::BlockHeader => Ok(3),
            Step::Block { length, .. } => Ok(length),
            Step::Checksum => Ok(4),
        }
    }

    fn take(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.position.stored += bytes.len() as u64;
        match self.step {
            Step::FrameHeader => self.take_frame_header(bytes),
            Step::Skipped(_) => Ok(()),
            Step::BlockHeader => {
                let header = bytes.try_into().unwrap_or_default(); // `needed` returned 3
                let length = self.block_length(header).map_err(damaged)?;
                self.step = Step::Block { header, length };
                Ok(())
            }
            Step::Block { header, .. } => {
                let (decoded_length, next) = self.decode_block(header, bytes).map_err(|error| self.undecoded(error))?;
                self.decoded_left =
                    self.decoded_left.checked_sub(decoded_length as u64).ok_or_else(|| self.too_long())?;
                self.position.decoded += decoded_length as u64;
                match next {
                    Step::FrameHeader => self.end_frame(),
                    next => self.step = next,
                }
                match self.decoded.get(..decoded_length) {
                    Some(decoded) if !decoded.is_empty() => {
                        self.has_emitted = true;
                        emit(decoded)
                    }
                    _ => Ok(()),
                }
            }
            Step::Checksum => {
                self.frame.read_content_checksum(bytes.try_into().unwrap_or_default()).map_err(damaged)?;
                self.end_frame();
                Ok(())
            }
        }
    }

    /// The number of stored bytes of the block with this header.
    fn block_length(&mut self, header: [u8; 3]) -> Result<usize, FrameDecoderError> {
        if let Some(length) = self.literal_frame.block_length(header) {
            return Ok(length);
        }
        self.literal_frame.replay(&mut self.frame, &mut self.decoded)?;
        Ok(self.frame.block_content_len(header)?.0)
    }

    /// Decodes a block to the start of `decoded`. Returns its length and the next step.
    fn decode_block(&mut self, header: [u8; 3], block: &[u8]) -> Result<(usize, Step), FrameDecoderError> {
        if let Decoded::Bytes { count, is_last } = self.literal_frame.decode(header, block, &mut self.decoded) {
            return Ok((count, if is_last { Step::FrameHeader } else { Step::BlockHeader }));
        }
        self.literal_frame.replay(&mut self.frame, &mut self.decoded)?;
        let count = self.frame.decode_block(header, block, &mut self.decoded)?;
        let next = match self.frame.awaits_checksum() {
            true => Step::Checksum,
            false if self.frame.is_finished() => Step::FrameHeader,
            false => Step::BlockHeader,
        };
        Ok((count, next))
    }

    fn take_frame_header(&mut self, bytes: &[u8]) -> Result<()> {
        // RFC 8878, 3.1.2: skippable frames have sixteen magics, followed by their length.
        if let Some((&[0x50..=0x5f, 0x2a, 0x4d, 0x18], length)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
            self.step = Step::Skipped(u64::from(length));
            return Ok(());
        }
        self.claimed_window = None;
        let length = match self.literal_frame.begin(bytes) {
            Some(length) => length,
            None => {
                let kept = window::limit(bytes, self.max_window, MAX_WINDOW_BYTES);
                self.claimed_window = kept.as_ref().map(|(_, claimed)| *claimed);
                self.frame.reset(kept.as_ref().map_or(bytes, |(header, _)| header)).map_err(damaged)?;
                self.frame.content_size()
            }
        };
        // The decoder allocates the content size that the header states.
        if length > self.decoded_left {
            return Err(self.too_long());
        }
        self.step = Step::BlockHeader;
        Ok(())
    }

    fn end_frame(&mut self) {
        self.step = Step::FrameHeader;
        // Frames without content are not blocks: they would end where the block before them does.
        if self.frames.last().copied().unwrap_or_default().decoded < self.position.decoded {
            self.frames.push(self.position);
        }
    }

    /// See [`Decoder::blocks`](super::Decoder::blocks).
    pub fn blocks(&self) -> &[BlockEnd] {
        &self.frames
    }

    /// The error for a block that cannot be decoded.
    fn undecoded(&self, error: FrameDecoderError) -> Error {
        match self.claimed_window {
            Some(requested) if error.to_string().contains(BEYOND_WINDOW) => {
                window_too_large(requested, self.max_window)
            }
            _ => damaged(error),
        }
    }

    fn too_long(&self) -> Error {
        if let DecodedLength::Exactly(_) = self.length {
            return malformed("its zstd frames decode to more bytes than the index states");
        }
        let what = format!(
            "its decoded length is not stated, and it decodes to more than {} bytes, the maximum for its tensor or its \
             stored length",
            self.limit
        );
        Error::new(ErrorKind::Limit, what).advise("Write the tensor with the decoded length of its components.")
    }
}

impl std::fmt::Debug for Zstd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zstd").field("step", &self.step).finish_non_exhaustive()
    }
}

fn window_too_large(requested: u64, limit: u64) -> Error {
    Error::new(ErrorKind::Limit, format!("a zstd frame has a window of {requested} bytes; the limit is {limit}"))
}

fn damaged(error: impl Into<FrameDecoderError>) -> Error {
    match error.into() {
        FrameDecoderError::WindowSizeTooBig { requested, limit, .. } => window_too_large(requested, limit),
        FrameDecoderError::DictNotProvided { dict_id } => {
            Error::new(ErrorKind::Unsupported, format!("a zstd frame needs the dictionary {dict_id}"))
        }
        error @ FrameDecoderError::ChecksumMismatch { .. } => {
            Error::new(ErrorKind::Checksum, error.to_string()).with_cause(error)
        }
        other => malformed(format!("a zstd frame is damaged: {other}")).with_cause(other),
    }
}

#[cfg(all(test, native))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use structured_zstd::encoding::{CompressionLevel, StreamingEncoder};

    fn frame(data: &[u8], states_length: bool, has_checksum: bool) -> Vec<u8> {
        let mut encoder = StreamingEncoder::new(Vec::new(), CompressionLevel::Default);
        encoder.set_content_checksum(has_checksum).unwrap();
        if states_length {
            encoder.set_pledged_content_size(data.len() as u64).unwrap();
        }
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn elements_of(element_bytes: u64) -> DecodedLength {
        DecodedLength::ElementsOf { element_bytes, limit: MAX_UNSTATED_BYTES }
    }

    fn decode_chunks(stored: &[u8], claimed: Option<u64>, cuts: &[usize]) -> Result<Vec<u8>> {
        let length = claimed.map_or(elements_of(1), DecodedLength::Exactly);
        let mut decoder = Zstd::new(stored.len() as u64, length);
        let mut out = Vec::new();
        let mut rest = stored;
        for &cut in cuts.iter().chain([&usize::MAX]) {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            decoder.push(chunk, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })?;
            rest = after;
        }
        decoder.finish()?;
        Ok(out)
    }

    proptest! {
        #[test]
        fn the_output_does_not_depend_on_the_chunks(
            seeds in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..300), 1usize..900, any::<(bool, bool)>()),
                0..4,
            ),
            is_stated in any::<bool>(),
            cuts in proptest::collection::vec(prop_oneof![0usize..20, 0usize..70_000], 0..60),
        ) {
            let (mut data, mut stored) = (Vec::new(), Vec::new());
            for (seed, repeat, (states_length, has_checksum)) in seeds {
                let part = seed.repeat(repeat);
                stored.extend(frame(&part, states_length, has_checksum));
                stored.extend(b"\x5a\x2a\x4d\x18\x03\0\0\0any"); // a skippable frame
                data.extend(part);
            }
            let claimed = is_stated.then_some(data.len() as u64);
            prop_assert_eq!(decode_chunks(&stored, claimed, &cuts), Ok(data));
        }

        #[test]
        fn damaged_frames_fail_or_decode_to_the_claimed_length(
            at in any::<proptest::sample::Index>(), flip in 1u8..=255, has_checksum in any::<bool>(),
            cuts in proptest::collection::vec(0usize..900, 0..9),
        ) {
            let data: Vec<u8> = (0..150_000u32).map(|i| (i / 7 % 13 * (i % 3)) as u8).collect();
            let mut stored = frame(&data, false, has_checksum);
            let at = at.index(stored.len());
            stored[at] ^= flip;
            if let Ok(out) = decode_chunks(&stored, Some(data.len() as u64), &cuts) {
                prop_assert_eq!(out.len(), data.len());
            }
        }
    }

    #[test]
    fn rejects_an_incomplete_element_without_a_stated_length() {
        let stored = frame(&[7; 30], false, false);
        for (element_bytes, is_whole) in [(1, true), (2, true), (4, false)] {
            let mut decoder = Zstd::new(stored.len() as u64, elements_of(element_bytes));
            decoder.push(&stored, &mut |_| Ok(())).unwrap();
            assert_eq!(decoder.finish().is_ok(), is_whole);
        }
    }

    #[test]
    fn rejects_frames_that_decode_to_a_different_length() {
        for states_length in [false, true] {
            let stored = frame(&[7; 300_000], states_length, false);
            let error = |claimed| decode_chunks(&stored, Some(claimed), &[]).unwrap_err().what;
            assert!(error(299_999).contains("more bytes than"), "{}", error(299_999));
            assert!(error(300_001).contains("1 bytes less"), "{}", error(300_001));
        }
    }

    #[test]
    fn rejects_a_stream_that_ends_inside_a_frame() {
        let stored = frame(&[7; 1000], true, true);
        for end in 1..stored.len() {
            assert!(decode_chunks(&stored[..end], None, &[]).is_err(), "{end}");
        }
        assert_eq!(decode_chunks(&[], None, &[]), Ok(Vec::new()));
    }

    #[test]
    fn rejects_a_frame_with_a_wrong_checksum() {
        let mut stored = frame(&[7; 1000], true, true);
        *stored.last_mut().unwrap() ^= 1;
        assert_eq!(decode_chunks(&stored, None, &[]).unwrap_err().kind, ErrorKind::Checksum);
    }

    #[test]
    fn rejects_a_window_beyond_the_limit() {
        // Magic, a descriptor that announces a window byte only, a window of 2^28 bytes, an empty last block.
        let stored = b"\x28\xb5\x2f\xfd\x00\x90\x01\0\0";
        assert_eq!(decode_chunks(stored, None, &[]).unwrap_err().kind, ErrorKind::Limit);
        // 128 MiB.
        let stored = b"\x28\xb5\x2f\xfd\x00\x88\x01\0\0";
        assert_eq!(decode_chunks(stored, None, &[]), Ok(Vec::new()));
    }

    #[test]
    fn data_without_a_stated_length_stops_at_the_limit() {
        // RLE blocks of 128 KiB: 4 stored bytes for each.
        let mut stored = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
        stored.extend(b"\x02\x00\x10\x00".repeat((MAX_UNSTATED_BYTES >> 17) as usize + 1));
        let by_ratio = max_unstated(stored.len() as u64);
        for (needed, limit) in [(None, by_ratio), (Some(u64::MAX), by_ratio), (Some(12), 12)] {
            let component = Component {
                encoding: crate::index::Encoding::Zstd,
                decoded_length: None,
                max_decoded_length: needed,
                ..Component::raw(crate::dtype::Dtype::U8, 0..stored.len() as u64)
            };
            let mut decoded = 0;
            let outcome = Zstd::of(&component).push(&stored, &mut |bytes| {
                decoded += bytes.len() as u64;
                Ok(())
            });
            let error = outcome.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Limit);
            assert!(decoded <= limit && error.what.contains(&limit.to_string()), "{decoded}, {error}");
        }
    }

    /// Frames that the reference library writes with a window of 64 MiB, with and without a content size.
    fn with_large_window(data: &[u8]) -> [Vec<u8>; 2] {
        [true, false].map(|states_length| {
            let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
            encoder.window_log(26).unwrap();
            encoder.long_distance_matching(true).unwrap();
            if states_length {
                encoder.set_pledged_src_size(Some(data.len() as u64)).unwrap();
            }
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        })
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls the C library")]
    fn decodes_windows_that_are_larger_than_what_is_kept() {
        for data in [vec![7; 40 << 20], b"small".to_vec()] {
            for stored in with_large_window(&data) {
                let mut decoder = Zstd::new(stored.len() as u64, DecodedLength::Exactly(data.len() as u64));
                assert!(decoder.max_window < 17 << 20, "less than the window is kept");
                let mut at = 0;
                let decoded = decoder.push(&stored, &mut |bytes| {
                    assert!(data[at..at + bytes.len()] == *bytes);
                    at += bytes.len();
                    Ok(())
                });
                decoded.unwrap();
                decoder.finish().unwrap();
                assert_eq!(at, data.len());
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls the C library")]
    fn refuses_references_to_bytes_that_are_not_kept() {
        let far: Vec<u8> = (0..1u32 << 14).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let data = [&far[..], &vec![0; 40 << 20], &far].concat();
        for stored in with_large_window(&data) {
            let decode = |stored_length: u64| {
                let mut decoder = Zstd::new(stored_length, DecodedLength::Exactly(data.len() as u64));
                decoder.push(&stored, &mut |_| Ok(()))
            };
            let error = decode(stored.len() as u64).unwrap_err();
            assert!(error.kind == ErrorKind::Limit && error.what.contains("window"), "{error}");
            assert_eq!(decode(8 << 20), Ok(()), "larger data may have a larger window");
        }
    }

    #[test]
    fn push_some_decodes_one_block_at_a_time() {
        let data: Vec<u8> = (0..1_000_000u32).map(|i| (i / 1000) as u8).collect();
        let stored = frame(&data, true, true);
        let mut decoder = Zstd::new(stored.len() as u64, DecodedLength::Exactly(data.len() as u64));
        let (mut out, mut rest) = (Vec::new(), &stored[..]);
        loop {
            let before = out.len();
            let consumed = decoder.push_some(rest, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            });
            rest = &rest[consumed.unwrap()..];
            assert!(out.len() - before <= MAX_BLOCK_BYTES);
            if rest.is_empty() && out.len() == before {
                break;
            }
        }
        decoder.finish().unwrap();
        assert!(out == data);
    }

    #[test]
    fn rejects_impossible_lengths() {
        assert!(check_lengths(10, 1 << 40).is_err());
        assert!(check_lengths(10, 0).is_ok());
        let stored = frame(&vec![0; 10 << 20], true, false);
        assert!(check_lengths(stored.len() as u64, 10 << 20).is_ok());
    }
}
