//! Decodes, digests and stores the bytes of one component. Runs on the loader's thread or on a worker.

use crate::codec::ComponentDecoder;
use crate::codec::cast::{Cast, Conversion};
use crate::error::Result;
use crate::index::{Algorithm, BlockEnd, Component, ComponentDigest, Digest, Encoding};
use crate::loader::decode::output_buffer::OutputBuffer;
use crate::source::Buffer;
use std::ops::Range;

/// Describes how to process the stored bytes of a component. Plain data that can be sent to another thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The component. Its `digest` and `pages` are not used here.
    pub component: Component,
    /// The decoded bytes to return. The end is `u64::MAX` if the decoded length is unknown.
    pub wanted: Range<u64>,
    /// Whether to store these bytes in a buffer. Otherwise they are only decoded and digested.
    pub stores_output: bool,
    /// Whether the whole component is read, so that the encoded data must be complete.
    pub is_complete: bool,
    /// The expected digests.
    pub digests: Vec<ComponentDigest>,
    /// The conversion of the decoded elements, if they are stored in another dtype.
    pub conversion: Option<Conversion>,
}

impl Task {
    /// Whether the task takes much longer than reading the bytes. Only heavy tasks are sent to other threads.
    pub fn is_heavy(&self) -> bool {
        self.conversion.is_some() || is_heavy(self.component.encoding, self.digests.iter().map(|stated| stated.digest))
    }

    /// Whether the bytes are compared with digests, or their values with a rule.
    pub(crate) fn has_checks(&self) -> bool {
        !self.digests.is_empty() || self.component.rule.is_some()
    }

    /// The range of the bytes that the buffer has: decoded, and converted if requested.
    fn output_range(&self) -> Range<u64> {
        self.conversion.as_ref().map_or_else(|| self.wanted.clone(), Conversion::output_range)
    }
}

/// Like [`Task::is_heavy`].
pub(crate) fn is_heavy(encoding: Encoding, mut digests: impl Iterator<Item = Digest>) -> bool {
    !encoding.keeps_positions() || digests.any(|digest| matches!(digest, Digest::Sha256(_) | Digest::Blake3(_)))
}

/// A running [`Task`].
#[derive(Debug)]
pub struct Job<B> {
    task: Task,
    output: Option<OutputBuffer<B>>,
    decoder: ComponentDecoder,
    converter: Option<Converter>,
    /// The offset of the next decoded byte in the decoded component.
    decoded_end: u64,
}

/// Converts the kept elements.
#[derive(Debug)]
struct Converter {
    cast: Cast,
    /// The number of converted bytes.
    converted_end: u64,
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
    pub fn new(task: Task, into: Option<B>) -> Result<Self> {
        let output = match into {
            _ if !task.stores_output => None,
            Some(buffer) => Some(OutputBuffer::given(buffer, task.output_range())),
            None => Some(OutputBuffer::allocate(&task.component, task.output_range())?),
        };
        let decoder = ComponentDecoder::new(&task.component, task.digests.iter().copied());
        // Only the rows were requested if the encoding keeps positions.
        let decoded_end = if task.component.encoding.keeps_positions() { task.wanted.start } else { 0 };
        let cast = |conversion: &Conversion| conversion.cast(&task.component.dtype);
        let cast = task.conversion.as_ref().filter(|_| task.stores_output).map(cast).transpose()?;
        let converter = cast.map(|cast| Converter { cast, converted_end: 0 });
        Ok(Job { task, output, decoder, converter, decoded_end })
    }

    /// Whether more bytes are needed. False once all requested rows are decoded.
    pub fn wants_more(&self) -> bool {
        self.task.is_complete || self.decoded_end < self.task.wanted.end
    }

    /// Decodes the next stored bytes. They may be split at any position.
    ///
    /// # Errors
    /// `FORMAT` if the bytes cannot be decoded; `LIMIT` if the buffer cannot grow.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let Job { task, output, decoder, converter, decoded_end } = self;
        decoder.push(bytes, &mut |decoded| {
            let start = *decoded_end;
            *decoded_end += decoded.len() as u64;
            match (output.as_mut(), converter.as_mut()) {
                (None, _) => Ok(()),
                (Some(output), None) => output.write(start, decoded),
                (Some(output), Some(converter)) => converter.push(part_in(&task.wanted, start, decoded), output),
            }
        })
    }

    /// The output buffer, if the caller can read stored bytes directly into it: see [`Job::filled`].
    pub(crate) fn buffer(&mut self) -> Option<&mut B> {
        let is_raw = self.task.component.encoding == Encoding::Raw;
        self.output.as_mut().filter(|_| is_raw && self.converter.is_none()).map(OutputBuffer::buffer)
    }

    /// Digests the next `length` bytes, which the caller has read into [`Job::buffer`], and passes them to `inspect`.
    pub(crate) fn filled(&mut self, length: u64, inspect: Option<Inspect<'_>>) -> Result<()> {
        let Job { task, output, decoder, decoded_end, .. } = self;
        let start = *decoded_end - task.wanted.start;
        *decoded_end += length;
        let Some(output) = output.as_mut().filter(|_| inspect.is_some() || decoder.has_checks()) else {
            return Ok(());
        };
        let mut inspect = inspect;
        output.buffer().inspect(start..start + length, &mut |bytes| {
            decoder.check_raw(bytes);
            inspect.as_mut().map_or(Ok(()), |inspect| inspect(bytes))
        })
    }

    /// Finishes the task, after the last stored byte or once no more bytes are needed.
    ///
    /// # Errors
    /// `FORMAT` if bytes are missing; `CHECKSUM` if a digest does not match.
    pub fn finish(self) -> Result<Received<B>> {
        let Job { task, output, decoder, converter, decoded_end } = self;
        let blocks = decoder.blocks().to_vec();
        let verified = decoder.finish(task.is_complete)?;
        let end = match converter {
            Some(Converter { cast, converted_end }) => cast.finish().map(|()| converted_end)?,
            None => decoded_end,
        };
        let buffer = output.map(|output| output.finish(&task.component, end)).transpose()?;
        Ok(Received { buffer, verified, blocks })
    }
}

impl Converter {
    /// Converts the next elements and writes them to `output`.
    fn push<B: Buffer>(&mut self, decoded: &[u8], output: &mut OutputBuffer<B>) -> Result<()> {
        let Converter { cast, converted_end } = self;
        cast.push(decoded, &mut |converted| {
            output.write(*converted_end, converted)?;
            *converted_end += converted.len() as u64;
            Ok(())
        })
    }
}

/// The part in `range` of bytes that start at the offset `start`.
fn part_in<'a>(range: &Range<u64>, start: u64, bytes: &'a [u8]) -> &'a [u8] {
    let at = |offset: u64| offset.saturating_sub(start).min(bytes.len() as u64) as usize;
    bytes.get(at(range.start)..at(range.end)).unwrap_or_default()
}
