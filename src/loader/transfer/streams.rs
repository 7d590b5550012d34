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
use crate::pipeline::StoredChunk;
use crate::source::{Buffer, BufferOf, Source};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The slices of one turn have about this many stored bytes. Until the last of them arrives, the others are kept.
const TURN_BYTES: u64 = 16 << 20;

/// Reads slices of streams in turn, and returns their bytes in the order in which numbers need them.
pub(crate) struct StreamReader<S: Source> {
    /// In the order of the file.
    streams: Vec<Stream<BufferOf<S>>>,
    /// The position in `streams` of the current slice.
    current: usize,
    /// The position of the stream of the slice after those that were requested.
    next: usize,
    /// Reads the current slice.
    reading: RangeReader<S>,
    /// The slice after it, with the position of its stream, and the request for it, once it is sent.
    ahead: Option<(usize, Range<u64>, NextRequest<S>)>,
    /// Buffers that were used before.
    spare: Vec<BufferOf<S>>,
}

/// A stream with the padding before it.
struct Stream<B> {
    /// The range of the file that was not requested yet.
    range: Range<u64>,
    /// The whole range.
    whole: Range<u64>,
    /// The length of its slices.
    slice_length: u64,
    /// The end of the bytes that have arrived.
    arrived: u64,
    /// Bytes that have arrived, and wait for those of other streams. They are not in WebAssembly memory, which never
    /// shrinks.
    waiting: VecDeque<StoredChunk<B>>,
}

impl<B> Stream<B> {
    fn new(whole: Range<u64>, turns: u64) -> Self {
        let slice_length = (whole.end - whole.start).div_ceil(turns);
        Stream { range: whole.clone(), slice_length, arrived: whole.start, waiting: VecDeque::new(), whole }
    }

    /// The part of the stream that is before the offset: about the part of the numbers whose bytes are.
    fn part_before(&self, at: u64) -> f64 {
        match self.whole.is_empty() {
            true => 1.0,
            false => (at - self.whole.start) as f64 / (self.whole.end - self.whole.start) as f64,
        }
    }

    /// The part before the first waiting bytes.
    fn waiting_from(&self) -> Option<f64> {
        self.waiting.front().and_then(|chunk| chunk.at).map(|at| self.part_before(at))
    }
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
        let streams = ranges.into_iter().map(|range| Stream::new(range, turns)).collect();
        let reading = like.beside(0..0, NextRequest::default());
        StreamReader { streams, current: 0, next: 0, reading, ahead: None, spare: Vec::new() }
    }

    /// The next bytes to join. `free` is a buffer that was used before. Calls `arrived` with bytes once they have
    /// arrived, which may be before they are returned. `None` at the end.
    ///
    /// # Errors
    /// Errors of the source and of `arrived`.
    pub(crate) async fn chunk(
        &mut self,
        free: Option<BufferOf<S>>,
        arrived: &mut dyn FnMut(&StoredChunk<BufferOf<S>>) -> Result<()>,
    ) -> Result<Option<StoredChunk<BufferOf<S>>>> {
        self.spare.extend(free.filter(|buffer| buffer.is_intact() && buffer.byte_length() == SCRATCH_BYTES));
        loop {
            if let Some(chunk) = self.take_joinable() {
                return Ok(Some(chunk));
            }
            if self.reading.position >= self.reading.end() {
                let requested = self.ahead.take();
                let next = || self.next_slice().map(|(at, slice)| (at, slice, NextRequest::default()));
                let Some((at, slice, request)) = requested.or_else(next) else { return Ok(None) };
                self.reading = self.reading.beside(slice, request);
                self.current = at;
            }
            let chunk = self.read().await?;
            arrived(&chunk)?;
            if let Some(stream) = self.streams.get_mut(self.current) {
                stream.arrived = self.reading.position;
                stream.waiting.push_back(chunk);
            }
            self.request_ahead();
        }
    }

    /// Reads the next bytes of the current slice, into a buffer of their length: many of them wait.
    async fn read(&mut self) -> Result<StoredChunk<BufferOf<S>>> {
        let at = self.reading.position;
        let length = (self.reading.end() - at).min(SCRATCH_BYTES);
        let mut buffer = match self.spare.pop_if(|_| length == SCRATCH_BYTES) {
            Some(buffer) => buffer,
            None => BufferOf::<S>::allocate(length)?,
        };
        self.reading.fill(&mut buffer, 0..length, &mut |_| ()).await?;
        Ok(StoredChunk { buffer, length, at: Some(at) })
    }

    /// The waiting bytes that numbers need first, if the other streams have arrived as far.
    fn take_joinable(&mut self) -> Option<StoredChunk<BufferOf<S>>> {
        let arrived = self.streams.iter().map(|stream| stream.part_before(stream.arrived)).fold(1.0, f64::min);
        let (mut first, mut from) = (None, arrived);
        for stream in &mut self.streams {
            if let Some(part) = stream.waiting_from().filter(|part| *part < from || first.is_none() && *part <= from) {
                from = part;
                first = Some(stream);
            }
        }
        first?.waiting.pop_front()
    }

    /// Requests the next slice, or goes on with this request.
    fn request_ahead(&mut self) {
        if self.ahead.is_none() && self.reading.proves_version() {
            let next = self.next_slice();
            self.ahead = next.map(|(at, slice)| (at, slice.clone(), self.reading.request_beside(slice)));
        }
        if let Some((.., request)) = &mut self.ahead {
            request.poll();
        }
    }

    /// Takes the next slice of the next stream that is not requested completely, and the position of the stream.
    fn next_slice(&mut self) -> Option<(usize, Range<u64>)> {
        let order = (self.next..self.streams.len()).chain(0..self.next);
        let at = order.into_iter().find(|at| self.streams.get(*at).is_some_and(|stream| !stream.range.is_empty()))?;
        self.next = (at + 1) % self.streams.len();
        let Stream { range, slice_length, .. } = self.streams.get_mut(at)?;
        let slice = range.start..range.end.min(range.start.saturating_add(*slice_length));
        range.start = slice.end;
        Some((at, slice))
    }
}
