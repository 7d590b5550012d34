//! The work on the bytes of one component: they are decoded, digested and kept. It is the same on whichever thread.

use crate::codec::ComponentDecoder;
use crate::error::Result;
use crate::index::{Component, ComponentDigest, Digest, Encoding};
use crate::loader::decode::kept::Kept;
use crate::source::Buffer;
use std::ops::Range;

/// What is to be done with the stored bytes of a component: plain data, which can be told to another thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The component. Of its digest and pages nothing is used here.
    pub component: Component,
    /// Which decoded bytes are wanted; up to `u64::MAX` where nobody knows how many come.
    pub keep: Range<u64>,
    /// Whether those are kept; if not, they are only decoded and digested.
    pub keeps: bool,
    /// Whether all of the component is read, so that the encoding must come to its end.
    pub is_complete: bool,
    /// What the bytes must have.
    pub digests: Vec<ComponentDigest>,
}

impl Task {
    /// Whether it takes much longer than to read the bytes: those of other tasks stay where they are.
    pub fn is_heavy(&self) -> bool {
        is_heavy(self.component.encoding, self.digests.iter().map(|stated| stated.digest))
    }
}

/// As [`Task::is_heavy`].
pub(crate) fn is_heavy(encoding: Encoding, mut digests: impl Iterator<Item = Digest>) -> bool {
    !encoding.keeps_positions() || digests.any(|digest| matches!(digest, Digest::Sha256(_) | Digest::Blake3(_)))
}

/// A [`Task`] that is being done.
#[derive(Debug)]
pub struct Job<B> {
    task: Task,
    kept: Option<Kept<B>>,
    decoder: ComponentDecoder,
    /// Where the next decoded byte belongs.
    decoded_end: u64,
}

/// What is shown bytes.
type Look<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A component whose bytes have arrived.
#[derive(Debug)]
pub struct Received<B> {
    /// The decoded bytes; `None` where nothing is kept.
    pub buffer: Option<B>,
    /// The algorithm that they were checked by.
    pub verified: Option<&'static str>,
}

impl<B: Buffer> Job<B> {
    /// Begins the task. `into` is where the bytes go, if the caller said: a buffer as long as what is kept.
    ///
    /// # Errors
    /// `LIMIT` where there is no memory for what is kept.
    pub fn new(task: Task, into: Option<B>) -> Result<Self> {
        let kept = match into {
            _ if !task.keeps => None,
            Some(buffer) => Some(Kept::given(buffer, task.keep.clone())),
            None => Some(Kept::allocate(&task.component, task.keep.clone())?),
        };
        let decoder = ComponentDecoder::new(&task.component, task.digests.iter().copied());
        // Just the rows were asked for where that can be.
        let decoded_end = if task.component.encoding.keeps_positions() { task.keep.start } else { 0 };
        Ok(Job { task, kept, decoder, decoded_end })
    }

    /// Whether there is use for more bytes: not once all rows that are wanted have come.
    pub fn wants_more(&self) -> bool {
        self.task.is_complete || self.decoded_end < self.task.keep.end
    }

    /// Takes the next stored bytes, cut anywhere.
    ///
    /// # Errors
    /// `FORMAT` where they cannot be decoded; `LIMIT` where there is no memory for what they decode to.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let Job { kept, decoder, decoded_end, .. } = self;
        decoder.push(bytes, &mut |decoded| {
            let start = *decoded_end;
            *decoded_end += decoded.len() as u64;
            kept.as_mut().map_or(Ok(()), |kept| kept.write(start, decoded))
        })
    }

    /// The buffer itself, where the stored bytes are put into it as they are: see [`Job::filled`].
    pub(crate) fn buffer(&mut self) -> Option<&mut B> {
        let is_raw = self.task.component.encoding == Encoding::Raw;
        self.kept.as_mut().filter(|_| is_raw).map(Kept::buffer)
    }

    /// The next `length` bytes of [`Job::buffer`] have come. Shows them to `look`, if there is one.
    pub(crate) fn filled(&mut self, length: u64, look: Option<Look<'_>>) -> Result<()> {
        let Job { task, kept, decoder, decoded_end } = self;
        let start = *decoded_end - task.keep.start;
        *decoded_end += length;
        let Some(kept) = kept.as_mut().filter(|_| look.is_some() || decoder.has_digests()) else { return Ok(()) };
        let mut look = look;
        kept.buffer().inspect(start..start + length, &mut |bytes| {
            decoder.digest_raw(bytes);
            look.as_mut().map_or(Ok(()), |look| look(bytes))
        })
    }

    /// Ends the task, after the last stored byte or once nothing more is wanted.
    ///
    /// # Errors
    /// `FORMAT` where fewer bytes came than are wanted; `CHECKSUM` where they have another digest.
    pub fn finish(self) -> Result<Received<B>> {
        let Job { task, kept, decoder, decoded_end } = self;
        let verified = decoder.finish(task.is_complete)?;
        let buffer = kept.map(|kept| kept.finish(&task.component, decoded_end)).transpose()?;
        Ok(Received { buffer, verified })
    }
}
