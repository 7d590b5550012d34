//! From the stored bytes of a component to the bytes that a caller gets: decoded, compared with digests, converted to
//! another dtype, or expanded to a dense tensor. Bytes in, bytes out, no I/O.
//!
//! Whole loads, rows, pieces, GPU buffers, views, files, conversions and verification all use a [`Pipeline`], natively,
//! in pages and in workers. [`Extent`] says which stored bytes it needs, and [`Job`] adds a buffer for its output.

mod component;
mod decoder;
mod expansion;
mod extent;
mod job;
mod output_buffer;
mod pool;
mod task;

pub use component::LoadedComponent;
pub(crate) use component::check_indices;
pub(crate) use expansion::{Dequantization, Expansion, QuantizedRows, Steps};
pub(crate) use extent::Extent;
pub use job::{Job, Received};
pub use pool::{Outcome, Pool, StoredChunk, TaskError, Work};
pub use task::Task;
pub(crate) use task::{expected_digests, is_heavy};

use crate::codec::cast::{Cast, Conversion};
use crate::codec::pages::PageChecker;
use crate::error::{Result, malformed};
use crate::index::{Algorithm, BlockEnd, StoredEnd};
use decoder::ComponentDecoder;
use std::ops::Range;

/// Decodes, checks and converts the stored bytes of one component, in chunks of any length.
#[derive(Debug)]
pub(crate) struct Pipeline {
    decoder: ComponentDecoder,
    pages: Option<Paged>,
    cast: Option<Cast>,
    /// The decoded bytes that are passed on.
    wanted: Range<u64>,
    end: StoredEnd,
    /// The offset of the next decoded byte in the decoded component.
    decoded_end: u64,
}

/// The digests of the pages that contain the component.
#[derive(Debug)]
struct Paged {
    checker: PageChecker,
    /// The range of the file that is decoded. The bytes around it, in the same pages, are only checked.
    decoded: Range<u64>,
    /// The offset of the next stored byte in the file.
    at: u64,
}

/// What is known after the last byte.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The algorithm that the bytes were verified with.
    pub(crate) verified: Option<Algorithm>,
    /// The ends of the compressed blocks that were decoded. Empty if they cannot be decoded alone.
    pub(crate) blocks: Vec<BlockEnd>,
    /// Those of each of several streams.
    pub(crate) stream_blocks: Vec<Vec<BlockEnd>>,
    /// The end of the decoded bytes.
    pub(crate) decoded_end: u64,
}

impl Pipeline {
    /// Starts to process the bytes of `task`.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a conversion that does not exist.
    pub(crate) fn new(task: &Task) -> Result<Self> {
        let Task { component, wanted, end, digests, conversion, .. } = task;
        let cast = |conversion: &Conversion| conversion.cast(&component.dtype);
        Ok(Pipeline {
            decoder: ComponentDecoder::new(component, digests.iter().copied()),
            pages: None,
            cast: conversion.as_ref().map(cast).transpose()?,
            wanted: wanted.clone(),
            end: *end,
            decoded_end: extent::first_decoded(component, wanted),
        })
    }

    /// Also compares the pages around the bytes. The stored bytes to push are then those of `read`, which are whole
    /// pages around `decoded`.
    pub(crate) fn with_pages(self, checker: PageChecker, read: &Range<u64>, decoded: Range<u64>) -> Self {
        Pipeline { pages: Some(Paged { checker, decoded, at: read.start }), ..self }
    }

    /// Whether more bytes are needed. False once all wanted bytes are decoded.
    pub(crate) fn wants_more(&self) -> bool {
        self.end == StoredEnd::Complete || self.pages.is_some() || self.decoded_end < self.wanted.end
    }

    /// The offset of the next decoded byte in the decoded component.
    pub(crate) fn decoded_end(&self) -> u64 {
        self.decoded_end
    }

    /// Whether raw bytes are passed on as they are stored, so that a caller may read them into their place and call
    /// [`Pipeline::filled`].
    pub(crate) fn passes_on(&self) -> bool {
        self.decoder.is_raw() && self.cast.is_none() && self.pages.is_none()
    }

    /// Whether bytes are compared with a digest, or their values with a rule.
    pub(crate) fn has_checks(&self) -> bool {
        self.decoder.has_checks()
    }

    /// Processes the next stored bytes, and calls `emit` with wanted bytes, in order.
    ///
    /// # Errors
    /// `FORMAT` if the bytes cannot be decoded; `CHECKSUM` for a wrong page; errors of `emit`.
    pub(crate) fn push(&mut self, stored: &[u8], emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.push_at(None, stored, emit)
    }

    /// Like [`Pipeline::push`]. `at` is the offset of the bytes in the file if they are of one of several streams that
    /// are read side by side.
    ///
    /// # Errors
    /// Those of [`Pipeline::push`].
    pub(crate) fn push_at(
        &mut self,
        at: Option<u64>,
        mut stored: &[u8],
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Pipeline { decoder, pages, cast, wanted, decoded_end, .. } = self;
        if let Some(Paged { checker, decoded, at: next }) = pages {
            checker.update(*next, stored)?;
            let start = *next;
            *next += stored.len() as u64;
            stored = overlap(decoded, start, stored);
        }
        decoder.push(at, stored, &mut |decoded| {
            let start = *decoded_end;
            *decoded_end += decoded.len() as u64;
            let decoded = overlap(wanted, start, decoded);
            match cast {
                Some(cast) => cast.push(decoded, emit),
                None => emit(decoded),
            }
        })
    }

    /// Checks the next raw bytes, which the caller has read into their place.
    pub(crate) fn filled(&mut self, bytes: &[u8]) {
        self.decoder.check_raw(bytes);
        self.decoded_end += bytes.len() as u64;
    }

    /// Like [`Pipeline::filled`], for `length` bytes without checks.
    pub(crate) fn filled_unchecked(&mut self, length: u64) {
        self.decoded_end += length;
    }

    /// Ends, after the last stored byte or once no more bytes are needed.
    ///
    /// # Errors
    /// `FORMAT` if bytes are missing; `CHECKSUM` if a digest does not match.
    pub(crate) fn finish(self) -> Result<Finished> {
        let Pipeline { decoder, pages, cast, wanted, end, decoded_end } = self;
        let (blocks, stream_blocks) = (decoder.blocks().to_vec(), decoder.stream_blocks());
        let by_digest = decoder.finish(end)?;
        if let Some(cast) = cast {
            cast.finish()?;
        }
        if wanted.end != u64::MAX && !wanted.is_empty() && decoded_end < wanted.end {
            let what = format!("its data decodes to {decoded_end} bytes, but {} are needed", wanted.end);
            return Err(malformed(what));
        }
        let verified = by_digest.or(pages.map(|_| Algorithm::Blake3));
        Ok(Finished { verified, blocks, stream_blocks, decoded_end })
    }
}

/// The part in `range` of bytes that start at the offset `start`.
fn overlap<'a>(range: &Range<u64>, start: u64, bytes: &'a [u8]) -> &'a [u8] {
    let at = |offset: u64| offset.saturating_sub(start).min(bytes.len() as u64) as usize;
    bytes.get(at(range.start)..at(range.end)).unwrap_or_default()
}
