//! Zstandard (RFC 8878), decoded step by step: frames end to end, with or without their length, no dictionaries.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::Component;
use structured_zstd::decoding::{ContentChecksum, FrameDecoder, errors::FrameDecoderError, frame_header_input_needed};

/// How far back a frame may refer, which is what its decoder keeps in memory. The limit of the reference decoder,
/// so that whatever the levels up to 22 write can be read. Stops a frame that claims a window of terabytes.
pub const MAX_WINDOW_BYTES: u64 = 128 << 20;

/// The window that every frame may have, however short it is: the levels up to 19 need 8 MiB. The decoder keeps the
/// window in memory, so that a larger one is for data that are worth it: see [`WINDOW_RATIO`].
pub const SMALL_WINDOW_BYTES: u64 = 16 << 20;

/// The window may have this many bytes more for each stored byte: levels 20 to 22 use windows as long as the data,
/// which they rarely compress better. Stops a frame of kilobytes that makes the decoder keep [`MAX_WINDOW_BYTES`].
pub const WINDOW_RATIO: u64 = 16;

/// The most that data of unstated length may decode to. Stops a file of kilobytes that decodes until the memory is
/// full.
pub const MAX_UNSTATED_BYTES: u64 = 1 << 30;

/// What data of unstated length may decode to, however short they are.
pub const SMALL_UNSTATED_BYTES: u64 = 16 << 20;

/// Data of unstated length may decode to this many bytes more for each stored byte. Indices of sparse tensors, which
/// compress best, take an eighth of their bytes. Stops a file of kilobytes that decodes to [`MAX_UNSTATED_BYTES`].
pub const UNSTATED_RATIO: u64 = 16;

/// The most that a block decodes to (RFC 8878, 3.1.1.2.4).
const MAX_BLOCK_BYTES: usize = 128 << 10;

/// A block of 4 bytes, a header and a byte to repeat, may be a whole one: nothing can decode to more.
const MAX_RATIO: u64 = (MAX_BLOCK_BYTES / 4) as u64;

/// Checks a claimed decoded length against the stored length.
///
/// # Errors
/// `FORMAT` where no `stored` bytes of Zstandard can decode to `decoded` bytes.
pub fn check_lengths(stored: u64, decoded: u64) -> Result<()> {
    if decoded / MAX_RATIO > stored {
        return Err(malformed(format!("{stored} bytes of zstd cannot decode to {decoded}")));
    }
    Ok(())
}

/// The most that `stored` bytes of unstated decoded length may decode to.
pub fn max_unstated(stored: u64) -> u64 {
    SMALL_UNSTATED_BYTES.saturating_add(stored.saturating_mul(UNSTATED_RATIO)).min(MAX_UNSTATED_BYTES)
}

/// Decodes one component's frames from chunks cut anywhere, holding a block and the frame's window.
pub struct Zstd {
    stored_left: u64,
    decoded_left: u64,
    /// What `decoded_left` began with.
    limit: u64,
    length: DecodedLength,
    step: Step,
    /// Whether bytes were emitted since the caller last looked.
    has_emitted: bool,
    /// The beginning of a step whose end has not come yet.
    pending: Vec<u8>,
    frame: Box<FrameDecoder>,
    decoded: Vec<u8>,
}

/// What is known of how long data decodes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedLength {
    /// So many bytes.
    Exactly(u64),
    /// Only that it is elements of `element_bytes` bytes each, and no more than `limit` bytes.
    ElementsOf {
        /// The bytes of an element.
        element_bytes: u64,
        /// The most bytes that they can be: what the index needs, or [`max_unstated`].
        limit: u64,
    },
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Step {
    FrameHeader,
    /// The rest of a frame that is to be skipped.
    Skipped(u64),
    BlockHeader,
    Block {
        header: [u8; 3],
        length: usize,
    },
    Checksum,
}

impl Zstd {
    /// The decoder of a component.
    pub fn of(component: &Component) -> Self {
        let element_bytes = component.dtype.block().map_or(1, |block| block.bytes);
        let stored = component.range.end - component.range.start;
        let limit = component.max_decoded_length.unwrap_or(u64::MAX).min(max_unstated(stored));
        let unstated = DecodedLength::ElementsOf { element_bytes, limit };
        Zstd::new(stored, component.decoded_length.map_or(unstated, DecodedLength::Exactly))
    }

    /// A decoder of `stored` bytes.
    pub fn new(stored: u64, length: DecodedLength) -> Self {
        let mut frame = Box::new(FrameDecoder::new());
        let window = SMALL_WINDOW_BYTES.saturating_add(stored.saturating_mul(WINDOW_RATIO)).min(MAX_WINDOW_BYTES);
        frame.set_max_window_size(window).ok(); // fails only for sizes that no frame can have
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
            decoded: vec![0; MAX_BLOCK_BYTES],
        }
    }

    /// As [`Decoder::push`](super::Decoder::push): `emit` is called once a block.
    ///
    /// # Errors
    /// `FORMAT` if a frame is damaged, or there are more bytes than `new` was given; `LIMIT` if it needs more memory or
    /// decodes to more bytes than is allowed; `UNSUPPORTED` if it needs a dictionary; `CHECKSUM` if its checksum does
    /// not match; those of `emit`.
    pub fn push(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.advance(input, emit, false).map(drop)
    }

    /// As [`Decoder::push_some`](super::Decoder::push_some): `emit` is called for one block at most.
    ///
    /// # Errors
    /// As for [`Zstd::push`].
    pub fn push_some(&mut self, input: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        self.advance(input, emit, true)
    }

    /// Takes all of the input, or up to the first block that decodes to something, and says how much it took.
    fn advance(&mut self, all: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>, one_block: bool) -> Result<usize> {
        if all.len() as u64 > self.stored_left {
            return Err(malformed("more bytes than its zstd frames should have"));
        }
        self.has_emitted = false;
        let mut input = all;
        let outcome = self.take_steps(&mut input, emit, one_block);
        let taken = all.len() - input.len();
        self.stored_left -= taken as u64;
        outcome.map(|()| taken)
    }

    fn take_steps(
        &mut self,
        input: &mut &[u8],
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
        one_block: bool,
    ) -> Result<()> {
        while !(one_block && self.has_emitted) {
            if let Step::Skipped(left) = &mut self.step {
                let (skipped, rest) = input.split_at(input.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                *input = rest;
                *left -= skipped.len() as u64;
                if *left > 0 {
                    return Ok(());
                }
                self.step = Step::FrameHeader;
            }
            if self.pending.is_empty()
                && let Some((whole, rest)) = input.split_at_checked(self.needed(input)?)
            {
                *input = rest;
                self.take(whole, emit)?; // straight from the chunk: most blocks need no copy
                continue;
            }
            let missing = self.needed(&self.pending)?.saturating_sub(self.pending.len());
            if missing > 0 && input.is_empty() {
                return Ok(());
            }
            let (taken, rest) = input.split_at(input.len().min(missing));
            self.pending.extend_from_slice(taken);
            *input = rest;
            if self.needed(&self.pending)? == self.pending.len() {
                let mut whole = std::mem::take(&mut self.pending);
                self.take(&whole, emit)?;
                whole.clear();
                self.pending = whole;
            }
        }
        Ok(())
    }

    /// As [`Decoder::finish`](super::Decoder::finish).
    ///
    /// # Errors
    /// `FORMAT` if stored or decoded bytes are missing, or the last element is incomplete.
    pub fn finish(&self) -> Result<()> {
        let at_a_frame = matches!(self.step, Step::FrameHeader) && self.pending.is_empty();
        if self.stored_left > 0 || !at_a_frame {
            return Err(malformed("its last zstd frame is not whole"));
        }
        match self.length {
            DecodedLength::Exactly(_) if self.decoded_left > 0 => Err(malformed(format!(
                "its zstd frames decode to {} bytes less than the index says",
                self.decoded_left
            ))),
            DecodedLength::ElementsOf { element_bytes: bytes, .. }
                if !(self.limit - self.decoded_left).is_multiple_of(bytes) =>
            {
                let decoded = self.limit - self.decoded_left;
                Err(malformed(format!("its zstd frames decode to {decoded} bytes, which are no elements of {bytes}")))
            }
            _ => Ok(()),
        }
    }

    /// How many bytes the next step has, as far as its first bytes tell.
    fn needed(&self, begun: &[u8]) -> Result<usize> {
        match self.step {
            Step::FrameHeader => frame_header_input_needed(begun, false).map_err(damaged),
            Step::Skipped(_) => Ok(0),
            Step::BlockHeader => Ok(3),
            Step::Block { length, .. } => Ok(length),
            Step::Checksum => Ok(4),
        }
    }

    fn take(&mut self, bytes: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self.step {
            Step::FrameHeader => self.take_frame_header(bytes),
            Step::Skipped(_) => Ok(()),
            Step::BlockHeader => {
                let header = bytes.try_into().unwrap_or_default(); // `needed` said 3
                let (length, _) = self.frame.block_content_len(header).map_err(damaged)?;
                self.step = Step::Block { header, length };
                Ok(())
            }
            Step::Block { header, .. } => {
                let decoded_length = self.frame.decode_block(header, bytes, &mut self.decoded).map_err(damaged)?;
                self.step = if self.frame.awaits_checksum() {
                    Step::Checksum
                } else if self.frame.is_finished() {
                    Step::FrameHeader
                } else {
                    Step::BlockHeader
                };
                self.decoded_left =
                    self.decoded_left.checked_sub(decoded_length as u64).ok_or_else(|| self.too_long())?;
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
                self.step = Step::FrameHeader;
                Ok(())
            }
        }
    }

    fn take_frame_header(&mut self, bytes: &[u8]) -> Result<()> {
        // RFC 8878, 3.1.2: sixteen magics of frames to skip, then their length.
        if let Some((&[0x50..=0x5f, 0x2a, 0x4d, 0x18], length)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
            self.step = Step::Skipped(u64::from(length));
            return Ok(());
        }
        self.frame.reset(bytes).map_err(damaged)?;
        // The decoder makes room for what the header states.
        if self.frame.content_size() > self.decoded_left {
            return Err(self.too_long());
        }
        self.step = Step::BlockHeader;
        Ok(())
    }

    fn too_long(&self) -> Error {
        if let DecodedLength::Exactly(_) = self.length {
            return malformed("its zstd frames decode to more bytes than the index says");
        }
        let what = format!(
            "its decoded length is not stated, and it decodes to more than the {} bytes that its tensor can need or \
             that weightstream decodes of it",
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

fn damaged(error: impl Into<FrameDecoderError>) -> Error {
    match error.into() {
        FrameDecoderError::WindowSizeTooBig { requested, limit, .. } => {
            let what = format!("a zstd frame refers back by up to {requested} bytes; at most {limit} are kept");
            Error::new(ErrorKind::Limit, what)
        }
        FrameDecoderError::DictNotProvided { dict_id } => {
            Error::new(ErrorKind::Unsupported, format!("a zstd frame needs the dictionary {dict_id}"))
        }
        error @ FrameDecoderError::ChecksumMismatch { .. } => {
            Error::new(ErrorKind::Checksum, error.to_string()).with_cause(error)
        }
        other => malformed(format!("a zstd frame is damaged: {other}")).with_cause(other),
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

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
        fn any_split_into_chunks_decodes_to_the_same(
            seeds in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..300), 1usize..900, any::<(bool, bool)>()), 0..4),
            is_stated in any::<bool>(),
            cuts in proptest::collection::vec(prop_oneof![0usize..20, 0usize..70_000], 0..60),
        ) {
            let (mut data, mut stored) = (Vec::new(), Vec::new());
            for (seed, repeat, (states_length, has_checksum)) in seeds {
                let part = seed.repeat(repeat);
                stored.extend(frame(&part, states_length, has_checksum));
                stored.extend(b"\x5a\x2a\x4d\x18\x03\0\0\0any"); // a frame to skip
                data.extend(part);
            }
            let claimed = is_stated.then_some(data.len() as u64);
            prop_assert_eq!(decode_chunks(&stored, claimed, &cuts), Ok(data));
        }

        #[test]
        fn damage_is_an_error_or_as_long_as_claimed(
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
    fn refuses_half_an_element_where_no_length_is_stated() {
        let stored = frame(&[7; 30], false, false);
        for (element_bytes, is_whole) in [(1, true), (2, true), (4, false)] {
            let mut decoder = Zstd::new(stored.len() as u64, elements_of(element_bytes));
            decoder.push(&stored, &mut |_| Ok(())).unwrap();
            assert_eq!(decoder.finish().is_ok(), is_whole);
        }
    }

    #[test]
    fn refuses_frames_that_decode_to_another_length_than_claimed() {
        for states_length in [false, true] {
            let stored = frame(&[7; 300_000], states_length, false);
            let error = |claimed| decode_chunks(&stored, Some(claimed), &[]).unwrap_err().what;
            assert!(error(299_999).contains("more bytes than"), "{}", error(299_999));
            assert!(error(300_001).contains("1 bytes less"), "{}", error(300_001));
        }
    }

    #[test]
    fn refuses_a_stream_that_ends_inside_a_frame() {
        let stored = frame(&[7; 1000], true, true);
        for end in 1..stored.len() {
            assert!(decode_chunks(&stored[..end], None, &[]).is_err(), "{end}");
        }
        assert_eq!(decode_chunks(&[], None, &[]), Ok(Vec::new()));
    }

    #[test]
    fn refuses_a_frame_whose_own_checksum_is_wrong() {
        let mut stored = frame(&[7; 1000], true, true);
        *stored.last_mut().unwrap() ^= 1;
        assert_eq!(decode_chunks(&stored, None, &[]).unwrap_err().kind, ErrorKind::Checksum);
    }

    #[test]
    fn refuses_a_window_beyond_the_limit() {
        // Magic, a descriptor that announces a window byte only, a window of 2^28 bytes, an empty last block.
        let stored = b"\x28\xb5\x2f\xfd\x00\x90\x01\0\0";
        assert_eq!(decode_chunks(stored, None, &[]).unwrap_err().kind, ErrorKind::Limit);
        // So short a frame may have 16 MiB.
        let stored = b"\x28\xb5\x2f\xfd\x00\x70\x01\0\0";
        assert_eq!(decode_chunks(stored, None, &[]), Ok(Vec::new()));
    }

    #[test]
    fn data_of_unstated_length_stops_at_the_limit() {
        // Blocks of one byte, repeated 128 KiB times: 4 bytes stored for each.
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

    #[test]
    fn a_window_may_be_large_where_the_data_are() {
        // A window of 128 MiB, then one block of one byte.
        let frame = b"\x28\xb5\x2f\xfd\x00\x88\x09\x00\x00a";
        let decode = |stored: u64| Zstd::new(stored, DecodedLength::Exactly(1)).push(frame, &mut |_| Ok(()));
        assert_eq!(decode(10).unwrap_err().kind, ErrorKind::Limit);
        assert_eq!(decode(8 << 20), Ok(()));
    }

    #[test]
    fn takes_one_block_at_a_time_where_it_is_asked_to() {
        let data: Vec<u8> = (0..1_000_000u32).map(|i| (i / 1000) as u8).collect();
        let stored = frame(&data, true, true);
        let mut decoder = Zstd::new(stored.len() as u64, DecodedLength::Exactly(data.len() as u64));
        let (mut out, mut rest) = (Vec::new(), &stored[..]);
        loop {
            let before = out.len();
            let taken = decoder.push_some(rest, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            });
            rest = &rest[taken.unwrap()..];
            assert!(out.len() - before <= MAX_BLOCK_BYTES);
            if rest.is_empty() && out.len() == before {
                break;
            }
        }
        decoder.finish().unwrap();
        assert!(out == data);
    }

    #[test]
    fn refuses_lengths_that_zstd_cannot_reach() {
        assert!(check_lengths(10, 1 << 40).is_err());
        assert!(check_lengths(10, 0).is_ok());
        let stored = frame(&vec![0; 10 << 20], true, false);
        assert!(check_lengths(stored.len() as u64, 10 << 20).is_ok());
    }
}
