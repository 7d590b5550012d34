//! Reads the streams of a component side by side, so that little is kept until the bytes of the others arrive, and of
//! rows only the parts of the streams that have them.
//!
//! Side by side means a slice of each stream in turn, each with a request of its own that is read to its end. The next
//! slice is requested while the current one is read. A browser has six connections to a server: with one open response
//! for each stream, the responses of several tensors could hold all of them while each tensor waits for another one.
//! Here each reader waits only for the oldest of its two requests, which gets a connection before the later ones.

use crate::error::Result;
use crate::index::{BlockSpan, ByteStream, ByteStreams, Component};
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::next_request::NextRequest;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::truncated::truncated_error;
use crate::pipeline::StoredChunk;
use crate::source::{BufferOf, Source};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The slices of one turn have about this many stored bytes. Until the last of them arrives, the others are kept.
const TURN_BYTES: u64 = 16 << 20;

/// Reads slices of streams in turn.
pub(crate) struct StreamReader<S: Source> {
    /// In the order of the file, the range of each stream that was not requested yet, with the padding before it, and
    /// the length of its slices.
    streams: Vec<(Range<u64>, u64)>,
    /// The position in `streams` of the next slice.
    next: usize,
    /// Reads the current slice.
    reading: RangeReader<S>,
    /// The slice after it, and the request for it, once it is sent.
    ahead: Option<(Range<u64>, NextRequest<S>)>,
}

impl<S: Source> ModelFile<S> {
    /// Whether the streams of a component are read side by side: several responses must be of one version of the file.
    #[inline(never)] // so that it can be in another part of the npm package's module
    pub(crate) fn reads_side_by_side(&self, component: &Component) -> bool {
        component.streams().is_some_and(ByteStreams::are_read_side_by_side) && self.can_join_responses()
    }

    /// The part of a component that has the numbers with the `wanted` decoded bytes, and the offset of these numbers in
    /// the decoded component.
    ///
    /// # Errors
    /// Errors of reading seek tables.
    pub(crate) async fn stream_span(
        self: &Rc<Self>,
        component: &Component,
        streams: &ByteStreams,
        wanted: &Range<u64>,
    ) -> Result<(Component, u64)> {
        let width = (streams.iter().len() as u64).max(1);
        let numbers = wanted.start / width..wanted.end.div_ceil(width);
        let mut parts = Vec::new();
        for stream in streams.iter() {
            parts.push(self.stream_part(stream, &numbers).await?);
        }
        let part = ByteStreams::new(parts, None)?;
        let (range, decoded_length) = (part.range(), Some((numbers.end - numbers.start) * width));
        let streams = Some(Arc::new(part));
        let part = Component { range, decoded_length, streams, digest: None, ..component.clone() };
        Ok((part, numbers.start * width))
    }

    /// The part of a stream with these bytes: exactly these if it is raw, else whole frames.
    async fn stream_part(self: &Rc<Self>, stream: &ByteStream, numbers: &Range<u64>) -> Result<ByteStream> {
        let whole = Component::of_stream(stream);
        if !stream.is_zstd {
            let range = stream.range.start + numbers.start..stream.range.start + numbers.end;
            let decoded_length = numbers.end - numbers.start;
            return Ok(ByteStream { range, decoded_length, digest: None, ..stream.clone() });
        }
        Ok(match self.block_span(&whole, numbers).await? {
            None => ByteStream { skipped: numbers.start, digest: None, ..stream.clone() },
            Some(BlockSpan { component: frames, start, .. }) => ByteStream {
                range: frames.range,
                decoded_length: frames.decoded_length.unwrap_or_default(),
                skipped: numbers.start - start.decoded,
                stored_before: start.stored,
                decoded_before: start.decoded,
                digest: None,
                is_zstd: true,
            },
        })
    }
}

impl<S: Source> StreamReader<S> {
    /// Starts to read the streams of a component, like another reader of the file. Requests nothing yet.
    #[inline(never)] // like the one above
    pub(crate) fn new(streams: &ByteStreams, like: &RangeReader<S>) -> Self {
        let ranges = streams.padded_ranges();
        let length = |range: &Range<u64>| range.end - range.start;
        let turns = ranges.iter().map(length).fold(0, u64::saturating_add).div_ceil(TURN_BYTES).max(1);
        let sliced = ranges.into_iter().map(|range| (range.clone(), length(&range).div_ceil(turns)));
        let reading = like.beside(0..0, NextRequest::default());
        StreamReader { streams: sliced.collect(), next: 0, reading, ahead: None }
    }

    /// The next bytes of the current slice, or of the next one. They are in the buffer `free`, if there is one that was
    /// used before. `None` at the end.
    ///
    /// # Errors
    /// Errors of the source.
    pub(crate) async fn chunk(&mut self, free: Option<BufferOf<S>>) -> Result<Option<StoredChunk<BufferOf<S>>>> {
        if self.reading.position >= self.reading.end() {
            let ahead = self.ahead.take().or_else(|| Some((self.next_slice()?, NextRequest::default())));
            let Some((slice, request)) = ahead else { return Ok(None) };
            self.reading = self.reading.beside(slice, request);
        }
        let (at, end) = (self.reading.position, self.reading.end());
        let missing = || truncated_error(at, at, end);
        self.reading.provide_buffer(|| free);
        let length = self.reading.chunk((end - at).min(SCRATCH_BYTES)).await?.ok_or_else(missing)?.length;
        let buffer = self.reading.take_chunk().ok_or_else(missing)?;
        self.request_ahead();
        Ok(Some(StoredChunk { buffer, length, at: Some(at) }))
    }

    /// Requests the next slice, or goes on with this request.
    fn request_ahead(&mut self) {
        if self.ahead.is_none() && self.reading.proves_version() {
            self.ahead = self.next_slice().map(|slice| (slice.clone(), self.reading.request_beside(slice)));
        }
        if let Some((_, request)) = &mut self.ahead {
            request.poll();
        }
    }

    /// Takes the next slice of the next stream that is not read completely.
    fn next_slice(&mut self) -> Option<Range<u64>> {
        let order = (self.next..self.streams.len()).chain(0..self.next);
        let at = order.into_iter().find(|at| self.streams.get(*at).is_some_and(|(range, _)| !range.is_empty()))?;
        self.next = (at + 1) % self.streams.len();
        let (range, length) = self.streams.get_mut(at)?;
        let slice = range.start..range.end.min(range.start.saturating_add(*length));
        range.start = slice.end;
        Some(slice)
    }
}
