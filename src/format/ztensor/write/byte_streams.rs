//! Splits the elements of a tensor into streams of bytes, and compresses those that get smaller: see
//! [`format::ztensor::byte_streams`](crate::format::ztensor::byte_streams).

use super::zstd::{Frame, FrameEncoder, PLAIN_LEVEL};
use crate::codec::zstd_seek::table;
use crate::error::{Error, ErrorKind, Result};
use rayon::prelude::*;
use std::ops::Range;
use weightstream_kernels::byte_streams::split;

/// The level for the bytes of one significance. Higher levels find more chance matches, which take more bytes.
const LEVEL: i32 = 1;

/// The decoded length of each frame but the last. Decoders keep a frame of each stream, and its blocks are compressed
/// independently, so that longer frames would not be smaller.
const FRAME_BYTES: usize = 256 << 10;

/// The frames of a stream that are compressed at once, on all cores.
const BATCH_FRAMES: usize = 16;

/// The start of one batch in as many is also compressed without splitting it, to see whether that is smaller.
const SAMPLE_INTERVAL: usize = 16;

/// The length of this start.
const SAMPLE_BYTES: usize = 128 << 10;

/// Memory that the encoders of all tensors use, one after another: to allocate it for each took a fifth of the time.
#[derive(Default)]
pub(super) struct Scratch {
    /// Elements that are not compressed yet.
    pending: Vec<u8>,
    /// The streams of these elements, one after another.
    split: Vec<u8>,
}

/// The streams of one tensor, compressed and in memory.
pub(super) struct StreamEncoder<'a> {
    /// The streams that are kept, as positions.
    kept: Range<usize>,
    width: usize,
    scratch: &'a mut Scratch,
    /// The frames of each stream that is kept.
    streams: Vec<Vec<Frame>>,
    batches: usize,
    sample: Sample,
}

/// Sizes of the same elements.
#[derive(Debug, Default, Clone, Copy)]
struct Sample {
    split: usize,
    plain: usize,
}

/// A stream as it is stored.
pub(super) enum StoredStream {
    /// Its frames, with the table of their positions if there are several.
    Zstd(Vec<Frame>),
    /// Frames that would not save anything: their decoded bytes are stored.
    Raw(Vec<Frame>),
}

impl<'a> StreamEncoder<'a> {
    /// Creates the encoder of elements of `width` bytes. It keeps the streams `kept` of them.
    pub(super) fn new(width: usize, kept: Range<usize>, scratch: &'a mut Scratch) -> Self {
        let streams = kept.clone().map(|_| Vec::new()).collect();
        scratch.pending.clear(); // after an error, it has some
        StreamEncoder { kept, width, scratch, streams, batches: 0, sample: Sample::default() }
    }

    /// Splits and compresses the next bytes, of any length.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        let batch_bytes = self.width * FRAME_BYTES * BATCH_FRAMES;
        while !bytes.is_empty() {
            let pending = &mut self.scratch.pending;
            let (next, rest) = bytes.split_at(bytes.len().min(batch_bytes - pending.len()));
            pending.extend_from_slice(next);
            bytes = rest;
            if pending.len() == batch_bytes {
                self.compress()?;
            }
        }
        Ok(())
    }

    /// Ends, after the last byte. Returns the streams, and whether they are probably smaller than the elements would be
    /// without splitting them.
    pub(super) fn finish(mut self) -> Result<(Vec<StoredStream>, bool)> {
        self.compress()?;
        let is_smaller = self.sample.split <= self.sample.plain;
        Ok((self.streams.into_iter().map(StoredStream::of).collect(), is_smaller))
    }

    /// Compresses the pending elements. The frames are independent, so that each can be made by another thread.
    fn compress(&mut self) -> Result<()> {
        let Scratch { pending, split } = &mut *self.scratch;
        let count = pending.len() / self.width;
        if count == 0 {
            return Ok(());
        }
        if self.batches.is_multiple_of(SAMPLE_INTERVAL) {
            let start = pending.get(..SAMPLE_BYTES).unwrap_or(pending);
            self.sample.add(start, self.width)?;
        }
        let streams: Vec<_> = split_bytes(pending, self.width, split)?.chunks(count).collect();
        let streams = streams.get(self.kept.clone()).unwrap_or_default();
        let frames = streams.iter().flat_map(|stream| stream.chunks(FRAME_BYTES)).collect::<Vec<_>>();
        let frames = frames.into_par_iter().map_init(
            || FrameEncoder::new(LEVEL),
            |encoder, frame| encoder.as_mut().map_err(|e| e.clone())?.encode(frame),
        );
        let frames = frames.collect::<Result<Vec<_>>>()?;
        let per_stream = count.div_ceil(FRAME_BYTES);
        let mut frames = frames.into_iter();
        for stream in &mut self.streams {
            stream.extend(frames.by_ref().take(per_stream));
        }
        self.batches += 1;
        self.scratch.pending.clear();
        Ok(())
    }
}

impl Sample {
    /// Adds the sizes of these elements.
    fn add(&mut self, elements: &[u8], width: usize) -> Result<()> {
        let (mut encoder, mut split) = (FrameEncoder::new(LEVEL)?, Vec::new());
        for stream in split_bytes(elements, width, &mut split)?.chunks(elements.len() / width) {
            self.split += encoder.encode(stream)?.stored.len().min(stream.len());
        }
        self.plain += FrameEncoder::new(PLAIN_LEVEL)?.encode(elements)?.stored.len();
        Ok(())
    }
}

/// The streams of the elements, one after another, in the memory of `bytes`.
fn split_bytes<'a>(elements: &[u8], width: usize, bytes: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    bytes.resize(elements.len(), 0);
    let mut streams: Vec<_> = bytes.chunks_mut((elements.len() / width).max(1)).collect();
    match streams.len() == width && split(elements, &mut streams) {
        true => Ok(bytes),
        false => Err(Error::new(ErrorKind::Internal, "a tensor is not a whole number of elements")),
    }
}

impl StoredStream {
    fn of(frames: Vec<Frame>) -> Self {
        let is_smaller = StoredStream::zstd_length(&frames) < decoded_length(&frames);
        if is_smaller { StoredStream::Zstd(frames) } else { StoredStream::Raw(frames) }
    }

    fn zstd_length(frames: &[Frame]) -> u64 {
        let stored: u64 = frames.iter().map(|frame| frame.stored.len() as u64).sum();
        stored + frame_table(frames).len() as u64
    }

    /// The number of stored bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            StoredStream::Zstd(frames) => StoredStream::zstd_length(frames),
            StoredStream::Raw(frames) => decoded_length(frames),
        }
    }

    /// The number of bytes of the stream, if they are compressed.
    pub(super) fn decoded_length(&self) -> Option<u64> {
        match self {
            StoredStream::Zstd(frames) => Some(decoded_length(frames)),
            StoredStream::Raw(_) => None,
        }
    }

    /// Calls `store` with the stored bytes, in order.
    pub(super) fn write(&self, store: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            StoredStream::Zstd(frames) => {
                frames.iter().try_for_each(|frame| store(&frame.stored))?;
                store(&frame_table(frames))
            }
            StoredStream::Raw(frames) => frames.iter().try_for_each(|frame| store(&frame.decode()?)),
        }
    }
}

fn decoded_length(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| u64::from(frame.decoded_length)).sum()
}

/// The table of the positions of several frames; empty for one.
fn frame_table(frames: &[Frame]) -> Vec<u8> {
    let lengths: Vec<_> = frames.iter().map(|frame| (frame.stored.len() as u32, frame.decoded_length)).collect();
    if lengths.len() < 2 { Vec::new() } else { table(&lengths) }
}
