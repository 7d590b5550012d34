//! Decodes the blocks of one frame after another: those without matches by themselves, and others with the general
//! decoder.

use super::limits::{MAX_BLOCK_BYTES, MAX_WINDOW_BYTES};
use super::literals::{Decoded, LiteralFrame};
use super::window;
use crate::error::{Error, ErrorKind, Result, malformed};
use structured_zstd::decoding::{ContentChecksum, FrameDecoder, errors::FrameDecoderError};

/// A part of the decoder's message for a block that refers to bytes before the window.
const BEYOND_WINDOW: &str = "OffsetTooBig";

/// The current frame.
pub(super) struct Frame {
    general: Box<FrameDecoder>,
    literals: Box<LiteralFrame>,
    /// The largest window that is kept.
    pub(super) max_window: u64,
    /// The window of the frame, if less is kept.
    claimed_window: Option<u64>,
    decoded: Vec<u8>,
}

/// What follows a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterBlock {
    Block,
    Checksum,
    EndOfFrame,
}

impl Frame {
    /// Prepares for frames of which a window of at most `max_window` bytes is kept.
    pub(super) fn new(max_window: u64) -> Self {
        let mut general = Box::new(FrameDecoder::new());
        general.set_max_window_size(max_window).ok(); // fails only for invalid sizes
        general.set_content_checksum(ContentChecksum::Verify);
        Frame {
            general,
            literals: Box::new(LiteralFrame::new()),
            max_window,
            claimed_window: None,
            decoded: vec![0; MAX_BLOCK_BYTES],
        }
    }

    /// Begins the frame with this header. Returns the length of its content, or 0 if the header does not state it.
    pub(super) fn begin(&mut self, header: &[u8]) -> Result<u64> {
        self.claimed_window = None;
        if let Some(length) = self.literals.begin(header) {
            return Ok(length);
        }
        let kept = window::limit(header, self.max_window, MAX_WINDOW_BYTES);
        self.claimed_window = kept.as_ref().map(|(_, claimed)| *claimed);
        self.general.reset(kept.as_ref().map_or(header, |(header, _)| header)).map_err(damaged)?;
        Ok(self.general.content_size())
    }

    /// The number of stored bytes of the block with this header.
    pub(super) fn block_length(&mut self, header: [u8; 3]) -> Result<usize> {
        if let Some(length) = self.literals.block_length(header) {
            return Ok(length);
        }
        self.literals.replay(&mut self.general, &mut self.decoded).map_err(damaged)?;
        Ok(self.general.block_content_len(header).map_err(damaged)?.0)
    }

    /// Decodes a block. Returns the length of [`Frame::decoded`], and what follows.
    pub(super) fn decode_block(&mut self, header: [u8; 3], block: &[u8]) -> Result<(usize, AfterBlock)> {
        if let Decoded::Bytes { count, is_last } = self.literals.decode(header, block, &mut self.decoded) {
            return Ok((count, if is_last { AfterBlock::EndOfFrame } else { AfterBlock::Block }));
        }
        self.decode_matches(header, block).map_err(|error| self.undecoded(error))
    }

    /// The first `length` bytes of the last block.
    pub(super) fn decoded(&self, length: usize) -> &[u8] {
        self.decoded.get(..length).unwrap_or_default()
    }

    /// Compares the checksum of the frame's content.
    pub(super) fn compare(&mut self, checksum: [u8; 4]) -> Result<()> {
        self.general.read_content_checksum(checksum).map_err(damaged)
    }

    fn decode_matches(&mut self, header: [u8; 3], block: &[u8]) -> Result<(usize, AfterBlock), FrameDecoderError> {
        self.literals.replay(&mut self.general, &mut self.decoded)?;
        let count = self.general.decode_block(header, block, &mut self.decoded)?;
        let next = match self.general.awaits_checksum() {
            true => AfterBlock::Checksum,
            false if self.general.is_finished() => AfterBlock::EndOfFrame,
            false => AfterBlock::Block,
        };
        Ok((count, next))
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
}

/// The error for a damaged frame, or one that is not supported.
pub(super) fn damaged(error: impl Into<FrameDecoderError>) -> Error {
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

fn window_too_large(requested: u64, limit: u64) -> Error {
    Error::new(ErrorKind::Limit, format!("a zstd frame has a window of {requested} bytes; the limit is {limit}"))
}
