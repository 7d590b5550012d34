//! Reads the streams of a component side by side, so that hardly anything is kept until the bytes of the others arrive,
//! and of rows only the parts of the streams that have them.

use crate::error::Result;
use crate::index::{BlockSpan, ByteStream, ByteStreams, Component};
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::truncated::truncated_error;
use crate::pipeline::StoredChunk;
use crate::source::{BufferOf, Source};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The streams of a component of which more stored bytes would be kept are read side by side. Each takes a request.
const MAX_KEPT_BYTES: u64 = 8 << 20;

/// One reader for each stream.
pub(crate) struct StreamReaders<S: Source> {
    readers: Vec<(RangeReader<S>, Range<u64>)>,
}

impl<S: Source> ModelFile<S> {
    /// Whether the streams of a component are read side by side: several responses must be of one version of the file.
    #[inline(never)] // so that it can be in another part of the npm package's module
    pub(crate) fn reads_side_by_side(&self, component: &Component) -> bool {
        let kept_bytes = component.streams().map_or(0, ByteStreams::kept_bytes);
        kept_bytes > MAX_KEPT_BYTES && self.can_join_responses()
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

impl<S: Source> StreamReaders<S> {
    /// Starts to read the streams of a component, like another reader of the file. Requests nothing yet.
    #[inline(never)] // like the one above
    pub(crate) fn new(file: &Rc<ModelFile<S>>, streams: &ByteStreams, like: &RangeReader<S>) -> Self {
        let start = |range: &Range<u64>| {
            let mut reading = file.start(range.clone(), Rc::new(Cell::new(range.end)));
            reading.is_cut = Rc::new(Cell::new(true)); // all responses must be of one version
            (reading.like(like), range.clone())
        };
        StreamReaders { readers: streams.iter().map(|stream| start(&stream.range)).collect() }
    }

    /// The next bytes: of the stream of which the least part has arrived, so that all of them arrive together. They are
    /// in the buffer `free`, if there is one that was used before. `None` at the end.
    ///
    /// # Errors
    /// Errors of the source.
    pub(crate) async fn chunk(&mut self, free: Option<BufferOf<S>>) -> Result<Option<StoredChunk<BufferOf<S>>>> {
        let arrived = |(reading, range): &(RangeReader<S>, Range<u64>)| {
            (reading.position - range.start) as f64 / (range.end - range.start) as f64
        };
        let open = self.readers.iter_mut().filter(|(reading, range)| reading.position < range.end);
        let Some((reading, range)) = open.min_by(|one, other| arrived(one).total_cmp(&arrived(other))) else {
            return Ok(None);
        };
        let at = reading.position;
        let missing = || truncated_error(range.start, at, range.end);
        reading.provide_buffer(|| free);
        let length = reading.chunk((range.end - at).min(SCRATCH_BYTES)).await?.ok_or_else(missing)?.length;
        let buffer = reading.take_chunk().ok_or_else(missing)?;
        Ok(Some(StoredChunk { buffer, length, at: Some(at) }))
    }
}
