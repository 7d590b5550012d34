//! Stores the output of a [`Pipeline`] in a buffer. Runs on the loader's thread or on a worker.

use super::output_buffer::OutputBuffer;
use super::{Finished, Pipeline, Task};
use crate::buffer::Buffer;
use crate::codec::pages::PageChecker;
use crate::error::Result;
use crate::index::{Algorithm, BlockEnd, Component};
use std::ops::Range;

/// A running [`Task`].
#[derive(Debug)]
pub struct Job<B> {
    pipeline: Pipeline,
    component: Component,
    /// The offset of the first wanted byte in the decoded component.
    start: u64,
    output: Option<OutputBuffer<B>>,
    /// The number of converted bytes, if the elements are converted.
    converted: Option<u64>,
}

/// A callback that receives bytes.
type Inspect<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// The result of a [`Task`].
#[derive(Debug)]
pub struct Received<B> {
    /// The decoded bytes; `None` if they are not stored.
    pub buffer: Option<B>,
    /// The algorithm that the bytes were verified with.
    pub verified: Option<Algorithm>,
    /// The ends of the compressed blocks that were decoded. Empty if they cannot be decoded alone.
    pub blocks: Vec<BlockEnd>,
}

impl<B: Buffer> Job<B> {
    /// Starts the task. `into` is the destination buffer, of exactly the length of `task.wanted`, or of the converted
    /// elements. If `None`, a buffer is allocated.
    ///
    /// # Errors
    /// `LIMIT` if the buffer cannot be allocated; `UNSUPPORTED` for a conversion that does not exist.
    pub fn new(mut task: Task, into: Option<B>) -> Result<Self> {
        let output = match into {
            _ if !task.stores_output => None,
            Some(buffer) => Some(OutputBuffer::given(buffer, task.output_range())),
            None => Some(OutputBuffer::allocate(&task.component, task.output_range())?),
        };
        task.conversion = task.conversion.filter(|_| task.stores_output);
        let (pipeline, start) = (Pipeline::new(&task)?, task.wanted.start);
        let converted = task.conversion.map(|_| 0);
        Ok(Job { pipeline, component: task.component, start, output, converted })
    }

    /// See [`Pipeline::with_pages`].
    pub(crate) fn with_pages(self, checker: PageChecker, read: &Range<u64>, decoded: Range<u64>) -> Self {
        Job { pipeline: self.pipeline.with_pages(checker, read, decoded), ..self }
    }

    /// Whether more bytes are needed. False once all requested rows are decoded.
    pub fn wants_more(&self) -> bool {
        self.pipeline.wants_more()
    }

    /// Decodes the next stored bytes. They may be split at any position.
    ///
    /// # Errors
    /// `FORMAT` if the bytes cannot be decoded; `LIMIT` if the buffer cannot grow.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.push_at(None, bytes)
    }

    /// Like [`Job::push`]. `at` is the offset of the bytes in the file if they are of one of several streams that are
    /// read side by side.
    ///
    /// # Errors
    /// Those of [`Job::push`].
    pub fn push_at(&mut self, at: Option<u64>, bytes: &[u8]) -> Result<()> {
        let Job { pipeline, output, converted, start, .. } = self;
        let mut end = converted.unwrap_or_else(|| pipeline.decoded_end().max(*start));
        pipeline.push_at(at, bytes, &mut |piece| {
            if let Some(output) = output {
                output.write(end, piece)?;
            }
            end += piece.len() as u64;
            Ok(())
        })?;
        *converted = converted.map(|_| end);
        Ok(())
    }

    /// The output buffer, if the caller can read stored bytes directly into it: see [`Job::filled`].
    pub(crate) fn buffer(&mut self) -> Option<&mut B> {
        self.output.as_mut().filter(|_| self.pipeline.passes_on()).map(OutputBuffer::buffer)
    }

    /// Digests the next `length` bytes, which the caller has read into [`Job::buffer`], and passes them to `inspect`.
    pub(crate) fn filled(&mut self, length: u64, mut inspect: Option<Inspect<'_>>) -> Result<()> {
        let Job { pipeline, output, start, .. } = self;
        let Some(output) = output.as_mut().filter(|_| inspect.is_some() || pipeline.has_checks()) else {
            pipeline.filled_unchecked(length);
            return Ok(());
        };
        let at = pipeline.decoded_end() - *start;
        output.buffer().inspect(at..at + length, &mut |bytes| {
            pipeline.filled(bytes);
            inspect.as_mut().map_or(Ok(()), |inspect| inspect(bytes))
        })
    }

    /// Finishes the task, after the last stored byte or once no more bytes are needed.
    ///
    /// # Errors
    /// `FORMAT` if bytes are missing; `CHECKSUM` if a digest does not match.
    pub fn finish(self) -> Result<Received<B>> {
        let Finished { verified, blocks, decoded_end, .. } = self.pipeline.finish()?;
        let end = self.converted.unwrap_or(decoded_end);
        let buffer = self.output.map(|output| output.finish(&self.component, end)).transpose()?;
        Ok(Received { buffer, verified, blocks })
    }
}
