//! Reads the decoded bytes of one component in pieces, from any position, and verifies them.

use crate::algorithm::Algorithm;
use crate::codec::pages::PageChecker;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{BlockEnd, BlockSpan, Component, Tensor};
use crate::loader::Loader;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::streams::StreamReader;
use crate::loader::transfer::truncated::truncated_error;
use crate::pipeline::{Extent, Finished, Pipeline, StoredChunk, Task, expected_digests};
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::FutureExt;
use std::ops::Range;
use std::rc::Rc;

/// The number of compressed bytes that are decoded at once. Bounds the decoded bytes that are held until the caller
/// takes them.
const STEP_BYTES: u64 = 16 << 10;

/// Reads a range of the decoded bytes of one component.
///
/// The digests of a component that is read from its first to its last byte are compared before its last bytes are
/// passed on.
pub(crate) struct ComponentReader<S: ModelSource> {
    prepared: PreparedComponent<S>,
    reading: RangeReader<S>,
    /// The reader of streams that are read side by side, instead of `reading`.
    streams: Option<StreamReader<S>>,
    /// Stored bytes that have arrived, and the number of those that are decoded already.
    arrived: Option<(StoredChunk<BufferOf<S>>, u64)>,
    /// The offset of the next byte to pass on, in the decoded bytes of the blocks that are read.
    position: u64,
    /// Decoded bytes that the caller has not taken yet, and how many of them it has taken.
    untaken: (Vec<u8>, usize),
    verified: Option<Algorithm>,
}

/// The component to read, and which of its decoded bytes.
pub(crate) struct WantedComponent<'a> {
    pub(crate) tensor: &'a Tensor,
    pub(crate) component: &'a Component,
    /// `None` for all bytes.
    pub(crate) range: Option<Range<u64>>,
}

/// What a [`ComponentReader`] reads, before it has a reader of the stored bytes.
pub(crate) struct PreparedComponent<S: ModelSource> {
    file: Rc<ModelFile<S>>,
    tensor_name: String,
    /// What is done with the bytes of the component, or of the blocks of it that are read.
    task: Task,
    extent: Extent,
    /// Where these blocks begin in the whole component.
    span_start: Option<BlockEnd>,
    /// The range of the file that is read: with pages, to their ends.
    stored: Range<u64>,
    /// `None` once the end was reached and the digests were compared.
    pipeline: Option<Pipeline>,
}

impl<S: ModelSource> PreparedComponent<S> {
    /// Determines which bytes are read. Reads the page digests, if the format has any.
    pub(crate) async fn new(loader: &Loader<S>, file: &Rc<ModelFile<S>>, of: WantedComponent<'_>) -> Result<Self> {
        let WantedComponent { tensor, component, range } = of;
        let mut extent = range.map_or_else(|| Extent::whole(component), |wanted| Extent::of(component, wanted));
        let is_part = !extent.is_whole && !extent.wanted.is_empty() && file.can_join_responses();
        if let Some(streams) = component.streams().filter(|_| is_part) {
            // Boxed, because it is deferred: only a deferred format has streams.
            let (part, start) = file.stream_span(component, streams, &extent.wanted).boxed_local().await?;
            let wanted = extent.wanted.start - start..extent.wanted.end - start;
            let extent = Extent { is_whole: false, wanted, ..Extent::whole(&part) };
            return PreparedComponent::of_part(file, tensor, &part, extent, start);
        }
        let span = if extent.is_whole { None } else { file.block_span(component, &extent.wanted).await? };
        let (span_start, component) = match &span {
            None => (None, component),
            Some(BlockSpan { component: blocks, start, end }) => {
                let wanted = extent.wanted.start - start.decoded..extent.wanted.end - start.decoded;
                extent = Extent::of_blocks(blocks, wanted, *end);
                (Some(*start), blocks)
            }
        };
        let mut pages = None;
        let table = if extent.is_whole { component.pages_of_whole() } else { component.pages.as_deref() };
        if let Some(table) = table.filter(|_| loader.options.verify) {
            file.read_pages(table).await.map_err(|e| file.reject_if_corrupt(e.in_tensor(&tensor.name)))?;
            pages = file.known_pages(table);
        }
        let rule = component.rule.filter(|_| loader.options.verify);
        let pinned = || loader.pinned.get(&tensor.name).copied();
        let digests = || expected_digests(tensor, component, pinned(), loader.options.verify);
        let task = Task {
            digests: if extent.is_whole { digests() } else { Vec::new() },
            ..Task::unchecked(&Component { rule, ..component.clone() }, &extent)
        };
        let stored = pages.as_ref().map_or(extent.stored.clone(), |pages| pages.around(&extent.stored));
        let mut pipeline = Pipeline::new(&task)?;
        if let Some(pages) = pages {
            pipeline = pipeline.with_pages(PageChecker::new(pages), &stored, extent.stored.clone());
        }
        let (file, tensor_name, pipeline) = (Rc::clone(file), tensor.name.clone(), Some(pipeline));
        Ok(PreparedComponent { file, tensor_name, task, extent, span_start, stored, pipeline })
    }

    /// A part of the streams of a component, which starts at the offset `start` of the decoded component.
    fn of_part(file: &Rc<ModelFile<S>>, tensor: &Tensor, part: &Component, extent: Extent, start: u64) -> Result<Self> {
        let task = Task::unchecked(part, &extent);
        let (pipeline, stored) = (Some(Pipeline::new(&task)?), extent.stored.clone());
        let (file, tensor_name) = (Rc::clone(file), tensor.name.clone());
        let span_start = Some(BlockEnd { stored: 0, decoded: start });
        Ok(PreparedComponent { file, tensor_name, task, extent, span_start, stored, pipeline })
    }

    /// The range of the file that is read.
    pub(crate) fn stored(&self) -> Range<u64> {
        self.stored.clone()
    }

    /// The ranges of the file that are read, without padding between streams.
    pub(crate) fn stored_ranges(&self) -> Vec<Range<u64>> {
        self.task.component.stored_ranges()
    }

    /// Starts to read. `reading` is at the start of [`PreparedComponent::stored`].
    pub(crate) fn start(self, reading: RangeReader<S>) -> ComponentReader<S> {
        let position = self.extent.wanted.start;
        let is_part = self.span_start.is_some();
        let needs_order = reading.has_tap() || self.task.needs_order();
        let apart = || is_part || (!needs_order && self.file.reads_side_by_side(&self.task.component));
        let streams = self.task.component.streams().filter(|_| apart());
        let streams = streams.map(|streams| StreamReader::new(streams, &reading));
        let (arrived, untaken, verified) = (None, (Vec::new(), 0), None);
        ComponentReader { prepared: self, reading, streams, arrived, position, untaken, verified }
    }
}

impl<S: ModelSource> ComponentReader<S> {
    /// The offset in the decoded component of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position + self.prepared.span_start.map_or(0, |start| start.decoded)
    }

    /// The algorithm that the bytes were verified with, once the last byte was read.
    pub(crate) fn verified(&self) -> Option<Algorithm> {
        self.verified
    }

    /// Whether a later read can continue here, in a compressed component.
    pub(crate) fn can_continue(&self) -> bool {
        self.prepared.pipeline.is_some() && !self.prepared.task.component.encoding.keeps_positions()
    }

    /// The reader of the stored bytes, for the component that follows.
    pub(crate) fn into_reading(self) -> RangeReader<S> {
        self.reading
    }

    /// Fills `at` of `into` with the next bytes, and returns how many there are: fewer than fit only at the end.
    ///
    /// # Errors
    /// Errors of the source and the decoders; `CHECKSUM` if the last bytes complete a component that does not match its
    /// digest.
    pub(crate) async fn fill(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let filled = self.fill_unplaced(into, at).await;
        filled.map_err(|e| self.prepared.place(e))
    }

    async fn fill_unplaced(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let count = (at.end - at.start).min(self.prepared.extent.wanted.end - self.position);
        let at = at.start..at.start + count;
        let mut filled = at.start;
        if self.arrived.is_none() && self.prepared.pipeline.as_ref().is_some_and(Pipeline::passes_on) {
            self.reading.fill(into, at.clone(), &mut |_| ()).await?;
            self.check_in_place(into, at.clone())?;
            self.position += count;
            filled = at.end;
        }
        while filled < at.end {
            let taken = self.take(into, filled..at.end)?;
            self.position += taken;
            filled += taken;
            if filled < at.end {
                let mut untaken = std::mem::take(&mut self.untaken.0);
                self.untaken.1 = 0;
                untaken.clear();
                let mut hold = |bytes: &[u8]| {
                    untaken.extend_from_slice(bytes);
                    Ok(())
                };
                let has_more = self.advance(&mut hold).await?;
                self.untaken.0 = untaken;
                if !has_more && self.untaken.0.is_empty() {
                    break;
                }
            }
        }
        if self.position == self.prepared.extent.wanted.end {
            while self.advance(&mut |_| Ok(())).await? {}
        }
        Ok(filled - at.start)
    }

    /// Checks bytes that were read directly into the caller's buffer.
    fn check_in_place(&mut self, buffer: &BufferOf<S>, range: Range<u64>) -> Result<()> {
        match self.prepared.pipeline.as_mut() {
            Some(pipeline) if pipeline.has_checks() => buffer.inspect(range, &mut |bytes| {
                pipeline.filled(bytes);
                Ok(())
            })?,
            Some(pipeline) => pipeline.filled_unchecked(range.end - range.start),
            None => {}
        }
        Ok(())
    }

    /// Moves decoded bytes to the caller's buffer. Returns their number.
    fn take(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let (bytes, taken) = &mut self.untaken;
        let rest = bytes.get(*taken..).unwrap_or_default();
        let rest = rest.get(..usize::try_from(at.end - at.start).unwrap_or(usize::MAX)).unwrap_or(rest);
        into.write(at.start, rest)?;
        *taken += rest.len();
        Ok(rest.len() as u64)
    }

    /// Passes all remaining bytes to `emit`. Returns the algorithm that they were verified with.
    ///
    /// # Errors
    /// As for [`ComponentReader::fill`], and errors of `emit`, which may have received bytes before an error is found.
    pub(crate) async fn emit_all(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Option<Algorithm>> {
        loop {
            match self.advance(emit).await {
                Ok(true) => {}
                Ok(false) => return Ok(self.verified),
                Err(error) => return Err(self.prepared.place(error)),
            }
        }
    }

    /// Decodes the next stored bytes, and passes those that are wanted to `emit`. Returns false at the end, once the
    /// digests were compared.
    async fn advance(&mut self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let Some(pipeline) = &self.prepared.pipeline else { return Ok(false) };
        let arrived = match self.arrived.take() {
            _ if !pipeline.wants_more() => None,
            Some(arrived) => Some(arrived),
            None => self.next_chunk().await?.map(|chunk| (chunk, 0)),
        };
        let Some((chunk, decoded)) = arrived else {
            self.finish()?;
            return Ok(false);
        };
        let is_compressed = !self.prepared.task.component.encoding.keeps_positions();
        let end = if is_compressed { chunk.length.min(decoded + STEP_BYTES) } else { chunk.length };
        let mut at = chunk.at.map(|at| at + decoded);
        if let Some(pipeline) = &mut self.prepared.pipeline {
            chunk.buffer.inspect(decoded..end, &mut |bytes| {
                pipeline.push_at(at, bytes, emit)?;
                at = at.map(|at| at + bytes.len() as u64);
                Ok(())
            })?;
        }
        if end < chunk.length {
            self.arrived = Some((chunk, end));
        } else {
            self.reading.provide_buffer(|| Some(chunk.buffer));
        }
        Ok(true)
    }

    /// The next stored bytes; `None` at the end.
    async fn next_chunk(&mut self) -> Result<Option<StoredChunk<BufferOf<S>>>> {
        if let Some(streams) = &mut self.streams {
            return streams.chunk(self.reading.take_chunk(), &mut |_| Ok(())).boxed_local().await;
        }
        let (at, end) = (self.reading.position, self.prepared.stored.end);
        if at >= end {
            return Ok(None);
        }
        let missing = || truncated_error(at, at, end);
        let length = self.reading.chunk(end - at).await?.ok_or_else(missing)?.length;
        Ok(Some(StoredChunk::next(self.reading.take_chunk().ok_or_else(missing)?, length)))
    }

    fn finish(&mut self) -> Result<()> {
        let Some(pipeline) = self.prepared.pipeline.take() else { return Ok(()) };
        let PreparedComponent { file, task, span_start, .. } = &self.prepared;
        let Finished { verified, blocks, stream_blocks, .. } = pipeline.finish()?;
        file.blocks.learn(&task.component, *span_start, &blocks)?;
        let streams = task.component.streams().into_iter().flat_map(|streams| streams.iter());
        for (stream, blocks) in streams.zip(&stream_blocks) {
            let start = BlockEnd { stored: stream.stored_before, decoded: stream.decoded_before };
            let start = span_start.map(|_| start);
            file.blocks.learn(&Component::of_stream(stream), start, blocks)?;
        }
        self.verified = verified.or(file.signed_by());
        file.confirm_contents(&task.component, &task.digests);
        Ok(())
    }
}

impl<S: ModelSource> PreparedComponent<S> {
    /// The error with its place. If only some blocks are read, the file may be wrong about where they are: the next
    /// read ignores what it states.
    fn place(&self, error: Error) -> Error {
        if let (Some(start), ErrorKind::Format) = (self.span_start, error.kind) {
            let Component { range, .. } = &self.task.component;
            match self.task.component.streams() {
                None => self.file.blocks.distrust(range.start - start.stored),
                Some(streams) => {
                    streams
                        .iter()
                        .for_each(|stream| self.file.blocks.distrust(stream.range.start - stream.stored_before));
                }
            }
        }
        self.file.reject_if_corrupt(error.in_tensor(&self.tensor_name))
    }
}
