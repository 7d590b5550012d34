//! Requests the rest of a range from one address, up to the first bytes that can be used.

use super::file::{Comparison, MirroredFile, compare};
use super::{Address, CHUNK_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Body, Buffer, RangeResponse};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Fewer bytes before a range than this say too little about a file, so that others are compared, too.
const MIN_COMPARED_BYTES: usize = 1 << 10;

/// A response, and the bytes of it that were read last.
pub(super) struct Stream<B: Body> {
    pub(super) number: usize,
    pub(super) head: RangeResponse<()>,
    body: B,
    buffer: B::Buffer,
    /// The bytes of the file that are in the buffer.
    chunk: Range<u64>,
    pub(super) has_ended: bool,
    /// Whether it was compared with nothing, because no other address has sent bytes.
    pub(super) needs_reference: bool,
}

impl<B: Body> Stream<B> {
    fn new(number: usize, needs_reference: bool, answer: RangeResponse<B>) -> Result<Self> {
        let (buffer, start) = (B::Buffer::allocate(CHUNK_BYTES)?, answer.start);
        let RangeResponse { end, file_length, is_whole_file, is_page, identity, body, .. } = answer;
        let head =
            RangeResponse { end, file_length, is_whole_file, is_page, identity, ..RangeResponse::new(start, ()) };
        Ok(Stream { number, head, body, buffer, chunk: start..start, has_ended: false, needs_reference })
    }

    /// Reads the next bytes into the buffer, in place of those before. Returns their number, 0 at the end.
    pub(super) async fn next(&mut self) -> Result<u64> {
        if !self.buffer.is_intact() {
            self.buffer = B::Buffer::allocate(CHUNK_BYTES)?;
        }
        let count = self.body.read(&mut self.buffer, 0..CHUNK_BYTES).await?;
        self.chunk = self.chunk.end..self.chunk.end + count;
        self.has_ended = count == 0;
        match self.head.end {
            Some(end) if count == 0 && self.chunk.end < end => {
                let what = format!("the transfer ended at byte {}, before byte {end}", self.chunk.end);
                Err(Error::new(ErrorKind::Truncated, what).at(self.chunk.end..end).transient())
            }
            _ => Ok(count),
        }
    }

    /// The bytes in the buffer from `position` on, as a range of the file, at most `limit`.
    pub(super) fn available(&self, position: u64, limit: u64) -> Range<u64> {
        position.max(self.chunk.start)..self.chunk.end.min(position.saturating_add(limit))
    }

    /// The end of the bytes that were read.
    pub(super) fn end(&self) -> u64 {
        self.chunk.end
    }

    /// The buffer, and where a range of the file is in it.
    pub(super) fn bytes(&self, range: &Range<u64>) -> (&B::Buffer, Range<u64>) {
        (&self.buffer, range.start - self.chunk.start..range.end - self.chunk.start)
    }
}

/// How far a range was read. The reader and the requests that race with it share it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The offset of the next byte.
    pub(super) position: Cell<u64>,
    /// Whether a response is being read, so that another one is only of use if it is faster.
    pub(super) is_reading: Cell<bool>,
}

/// A request for a range at one address.
pub(super) struct Attempt<A: Address> {
    pub(super) file: Rc<MirroredFile<A>>,
    pub(super) first: A,
    pub(super) number: usize,
    pub(super) range: Range<u64>,
    /// The bytes before the range, which another address has sent.
    pub(super) before: Vec<u8>,
    /// The end that the response must reach, if bytes of the range were read already.
    pub(super) promised_end: Option<u64>,
    pub(super) progress: Rc<Progress>,
    pub(super) is_answered: Rc<Cell<bool>>,
}

impl<A: Address> Attempt<A> {
    /// Sends the request, compares the response with what is known, and reads up to the next byte of the range. Returns
    /// `None` if this would take more bytes than may be received twice.
    ///
    /// # Errors
    /// Those of the request; `CHANGED` if the file is another one.
    pub(super) async fn run(self) -> Result<Option<Stream<A::Body>>> {
        let Attempt { file, number, range, before, .. } = &self;
        let address = file.address(&self.first, *number)?;
        let start = range.start.saturating_sub(before.len() as u64);
        let answer = address.request(start..range.end).await?;
        let needs_reference = file.is_reference(*number);
        let comparison = file.check_head(*number, &answer, start, self.promised_end)?;
        if comparison == Comparison::Needed && before.len() < MIN_COMPARED_BYTES {
            file.compare_sample(&address, *number).await?;
        }
        let mut stream = Stream::new(*number, needs_reference, answer)?;
        if before.is_empty() {
            self.advance(&mut stream).await?;
        }
        while !before.is_empty() && stream.end() < range.start {
            let (at, count) = (stream.end(), self.advance(&mut stream).await?);
            if count == 0 {
                return Err(Error::new(ErrorKind::Truncated, "its response ended early").transient());
            }
            let known = before.get((at - start) as usize..).unwrap_or_default();
            let both = at..range.start.min(at + count);
            let (buffer, bytes) = stream.bytes(&both);
            compare(known.get(..(both.end - both.start) as usize).unwrap_or_default(), buffer, bytes, at)?;
        }
        if comparison == Comparison::Needed {
            file.note_compared(*number, stream.head.identity.etag.as_ref());
        }
        while !before.is_empty() && stream.end() <= self.progress.position.get() {
            if self.progress.is_reading.get() && !file.shared.policy.borrow().may_double(0) {
                return Ok(None);
            }
            if self.advance(&mut stream).await? == 0 {
                break;
            }
        }
        Ok(Some(stream))
    }

    async fn advance(&self, stream: &mut Stream<A::Body>) -> Result<u64> {
        let count = stream.next().await?;
        let mut policy = self.file.shared.policy.borrow_mut();
        policy.received(self.number, count);
        policy.double(count);
        self.is_answered.set(true);
        Ok(count)
    }
}
