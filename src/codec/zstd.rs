//! Decodes Zstandard (RFC 8878) incrementally: consecutive frames, with or without a content size, no dictionaries.

mod frame;
mod limits;
pub(crate) mod literals;
mod window;

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{BlockEnd, Component};
use frame::{AfterBlock, Frame, damaged};
use limits::max_window;
pub use limits::{
    MAX_UNSTATED_BYTES, MAX_WINDOW_BYTES, SMALL_UNSTATED_BYTES, SMALL_WINDOW_BYTES, UNSTATED_RATIO, WINDOW_RATIO,
    check_lengths, max_unstated,
};
use structured_zstd::decoding::frame_header_input_needed;

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
    frame: Frame,
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
            frame: Frame::new(max_window(stored)),
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
                let length = self.frame.block_length(header)?;
                self.step = Step::Block { header, length };
                Ok(())
            }
            Step::Block { header, .. } => {
                let (decoded_length, next) = self.frame.decode_block(header, bytes)?;
                self.decoded_left =
                    self.decoded_left.checked_sub(decoded_length as u64).ok_or_else(|| self.too_long())?;
                self.position.decoded += decoded_length as u64;
                match next {
                    AfterBlock::Block => self.step = Step::BlockHeader,
                    AfterBlock::Checksum => self.step = Step::Checksum,
                    AfterBlock::EndOfFrame => self.end_frame(),
                }
                match self.frame.decoded(decoded_length) {
                    [] => Ok(()),
                    decoded => {
                        self.has_emitted = true;
                        emit(decoded)
                    }
                }
            }
            Step::Checksum => {
                self.frame.compare(bytes.try_into().unwrap_or_default())?;
                self.end_frame();
                Ok(())
            }
        }
    }

    fn take_frame_header(&mut self, bytes: &[u8]) -> Result<()> {
        // RFC 8878, 3.1.2: skippable frames have sixteen magics, followed by their length.
        if let Some((&[0x50..=0x5f, 0x2a, 0x4d, 0x18], length)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
            self.step = Step::Skipped(u64::from(length));
            return Ok(());
        }
        let length = self.frame.begin(bytes)?;
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

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]
mod tests;
