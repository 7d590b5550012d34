//! Reads a range of a file, and resumes after broken and stalled connections: passes on the bytes that were known
//! before, and those of one response after another.

mod connection;
mod retry;

use crate::error::Result;
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::next_request::NextRequest;
use crate::loader::transfer::overlap::{MIN_OVERLAP_BYTES, OVERLAP_BYTES, Tail};
use crate::loader::transfer::priority::PrefetchPriority;
use crate::loader::transfer::remote::{Proof, Remote};
use crate::loader::transfer::truncated::truncated_error;
use crate::source::{Buffer, BufferOf, Source};
use futures::future::{FutureExt, LocalBoxFuture};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Maximum length of a raw tensor whose own buffer is passed to the stream, which avoids a copy. The buffer is lost
/// when the connection breaks, so longer tensors are copied.
pub(crate) const MAX_DIRECT_BYTES: u64 = 4 << 20;

/// Reads a range of a file: first the known bytes, then one response body after another until the range is complete.
pub(crate) struct RangeReader<S: Source> {
    file: Rc<ModelFile<S>>,
    known: Vec<u8>,
    known_at: usize,
    remote: Option<Remote<S::Body>>,
    /// Where `remote` started in the file.
    remote_start: u64,
    /// Maximum overlap of the next request.
    max_overlap_bytes: u64,
    /// The offset of the next byte in the file.
    pub(crate) position: u64,
    /// The end of the range. It is lowered when another connection takes over the rest.
    end: Rc<Cell<u64>>,
    scratch: Option<BufferOf<S>>,
    /// Number of failures since bytes last arrived.
    failures: u32,
    watchdog: Option<LocalBoxFuture<'static, ()>>,
    /// The last bytes that were read, to compare them with the start of a resumed response.
    tail: Tail,
    /// Pauses the reader while other loads have priority; set for prefetching only.
    pub(crate) prefetch_priority: Option<Rc<PrefetchPriority>>,
    /// Whether another connection reads a part of the same component, so that every response must prove its version.
    pub(crate) is_cut: Rc<Cell<bool>>,
    /// Whether the reader checks the file, for which others wait.
    is_check: bool,
    /// Receives the offset of all bytes that are read, and the bytes.
    tap: Option<Tap>,
    /// Set if the length of requests is limited.
    next_request: Option<NextRequest<S>>,
}

/// Receives all bytes of a file that are read, with their offset: for the digests of the whole file. Bytes may come
/// again after a broken connection.
pub(crate) type Tap = Rc<dyn Fn(u64, &[u8])>;

/// Bytes in the scratch buffer of a [`RangeReader`]: the first `length` of it.
pub(crate) struct Chunk<'a, B> {
    pub(crate) buffer: &'a B,
    /// The offset of the bytes in the file.
    pub(crate) start: u64,
    pub(crate) length: u64,
}

impl<S: Source> RangeReader<S> {
    /// A reader from `position` to `end`, whose first bytes are `known`. Sends no request yet.
    pub(crate) fn new(file: Rc<ModelFile<S>>, position: u64, end: Rc<Cell<u64>>, known: Vec<u8>) -> Self {
        let (remote, scratch, watchdog, tail, prefetch_priority, next_request) = Default::default();
        RangeReader {
            file,
            known,
            known_at: 0,
            remote,
            remote_start: position,
            max_overlap_bytes: OVERLAP_BYTES,
            position,
            end,
            scratch,
            failures: 0,
            watchdog,
            tail,
            prefetch_priority,
            is_cut: Rc::default(),
            is_check: false,
            tap: None,
            next_request,
        }
    }

    pub(crate) fn with_tap(self, tap: Option<Tap>) -> Self {
        RangeReader { tap, ..self }
    }

    /// Whether all bytes are passed on, in order.
    pub(crate) fn has_tap(&self) -> bool {
        self.tap.is_some()
    }

    /// Another reader of the same file, with limited requests, and pauses for other loads if this one has them. All of
    /// its responses must prove the version of the file. `first` may be its first request.
    pub(crate) fn beside(&self, range: Range<u64>, first: NextRequest<S>) -> Self {
        let end = Rc::new(Cell::new(range.end));
        let (prefetch_priority, is_cut) = (self.prefetch_priority.clone(), Rc::new(Cell::new(true)));
        RangeReader { next_request: Some(first), prefetch_priority, is_cut, ..self.file.start(range, end) }
    }

    /// The first request of another reader. It is sent when it is polled.
    pub(crate) fn request_beside(&self, range: Range<u64>) -> NextRequest<S> {
        let (file, start) = (Rc::clone(&self.file), range.start);
        NextRequest::of(start, async move { file.request(range).await }.boxed_local())
    }

    /// Whether the current response proves the version of the file.
    pub(crate) fn proves_version(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.proof == Proof::Strong)
    }

    /// Limits the length of requests, and with it the bytes that a browser receives ahead of the reader.
    pub(crate) fn with_limited_requests(self) -> Self {
        RangeReader { next_request: Some(NextRequest::default()), ..self }
    }

    /// The end of the range.
    pub(crate) fn end(&self) -> u64 {
        self.end.get()
    }

    /// The rest of the current body, if there is one.
    pub(crate) fn into_remote(self) -> Option<Remote<S::Body>> {
        self.remote
    }

    /// Sets the buffer for the next chunk if there is none.
    pub(crate) fn provide_buffer(&mut self, buffer: impl FnOnce() -> Option<BufferOf<S>>) {
        if self.scratch.is_none() {
            self.scratch = buffer();
        }
    }

    /// Takes the buffer of the last chunk out of the reader.
    pub(crate) fn take_chunk(&mut self) -> Option<BufferOf<S>> {
        self.scratch.take()
    }

    /// The next bytes, at most `limit`, in a buffer that the next call overwrites; `None` at the end of the file.
    pub(crate) async fn chunk(&mut self, limit: u64) -> Result<Option<Chunk<'_, BufferOf<S>>>> {
        let mut scratch = match self.scratch.take() {
            Some(scratch) if scratch.is_intact() => scratch,
            _ => BufferOf::<S>::allocate(SCRATCH_BYTES)?,
        };
        let wanted = 0..SCRATCH_BYTES.min(limit);
        let outcome = loop {
            match self.read(&mut scratch, wanted.clone()).await {
                // The same bytes are requested again.
                Err(error) => self.recover(error).await?,
                Ok(count) => break count,
            }
            if !scratch.is_intact() {
                scratch = BufferOf::<S>::allocate(SCRATCH_BYTES)?;
            }
        };
        let (buffer, start) = (&*self.scratch.insert(scratch), self.position - outcome);
        Ok((outcome > 0).then_some(Chunk { buffer, start, length: outcome }))
    }

    /// Fills `at` of `into` with the next bytes. Calls `arrived` with each range of the file that was received, once.
    pub(crate) async fn fill(
        &mut self,
        into: &mut BufferOf<S>,
        at: Range<u64>,
        arrived: &mut dyn FnMut(Range<u64>),
    ) -> Result<()> {
        let (start, end) = (self.position, self.position + (at.end - at.start));
        let mut reported = start;
        let mut report = |position: u64| {
            if position > reported {
                arrived(reported..position);
                reported = position;
            }
        };
        let is_whole_buffer = at == (0..into.byte_length()) && self.known_at == self.known.len();
        if is_whole_buffer && at.end <= MAX_DIRECT_BYTES && !self.file.has_failed() {
            if self.fill_directly(into, end, &mut report).await? {
                return Ok(());
            }
            *into = BufferOf::<S>::allocate(at.end)?;
            self.position = start;
        }
        while self.position < end {
            let position = self.position;
            let chunk = self.chunk(end - position).await?.ok_or_else(|| truncated_error(start, position, end))?;
            into.copy(at.start + (position - start), chunk.buffer, 0..chunk.length)?;
            report(position + chunk.length);
        }
        Ok(())
    }

    /// Passes the buffer itself to the stream. Returns false if a failure lost the buffer. After the first failure of a
    /// file, bytes are copied instead, so that every attempt over an unstable connection makes progress.
    async fn fill_directly(&mut self, into: &mut BufferOf<S>, end: u64, report: &mut dyn FnMut(u64)) -> Result<bool> {
        let start = self.position;
        while self.position < end {
            match self.read(into, self.position - start..end - start).await {
                Ok(0) => return Err(truncated_error(start, self.position, end)),
                Ok(_) => report(self.position),
                Err(error) => {
                    self.recover(error).await?;
                    if !into.is_intact() {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// One read: of the known bytes, or else of the body. Sends a request if there is no body. Returns 0 at the end of
    /// the file.
    async fn read(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let count = self.take_known(into, &at)?;
        if count > 0 {
            return Ok(count);
        }
        if self.position >= self.end.get() {
            return Ok(0);
        }
        if let Some(prefetch_priority) = &self.prefetch_priority {
            prefetch_priority.yield_to_demands().await;
        }
        // A server may send fewer bytes than requested.
        let is_at_end = self.remote.as_ref().is_some_and(|remote| remote.end == Some(self.position));
        if is_at_end && self.file.length().is_some_and(|length| self.position >= length) {
            return Ok(0);
        }
        if is_at_end {
            // Of a server that limits every response, half of the next one must be new.
            let half = self.position.saturating_sub(self.remote_start) / 2;
            self.max_overlap_bytes = half.clamp(MIN_OVERLAP_BYTES, OVERLAP_BYTES);
        }
        if is_at_end || self.remote.as_ref().is_none_or(|remote| remote.position != self.position) {
            self.remote = None;
            let remote = match self.connect_at_position().await {
                // The file has no more bytes, which the server did not state before.
                Err(error) if is_at_end && error.context.status == Some(416) && self.file.length().is_none() => {
                    return Ok(0);
                }
                connected => connected?,
            };
            self.remote = Some(remote);
        }
        let Some(mut remote) = self.remote.take() else { return Ok(0) };
        let stats = Rc::clone(&self.file.stats);
        let start = at.start;
        let count = self.with_timeout(|_| remote.read(into, at, &stats).boxed_local()).await?;
        self.keep_overlap(into, start..start + count)?;
        self.report(into, start..start + count)?;
        if count == 0 {
            return match remote.end {
                Some(end) if self.position < end => Err(truncated_error(self.position, self.position, end)),
                _ => Ok(0),
            };
        }
        self.position += count;
        self.failures = 0;
        self.request_ahead(&remote);
        self.remote = Some(remote);
        Ok(count)
    }

    /// Copies bytes that were known before, and returns their number.
    fn take_known(&mut self, into: &mut BufferOf<S>, at: &Range<u64>) -> Result<u64> {
        let known = self.known.get(self.known_at..).unwrap_or_default();
        let taken = known.get(..usize::try_from(at.end - at.start).unwrap_or(usize::MAX)).unwrap_or(known);
        if taken.is_empty() {
            return Ok(0);
        }
        into.write(at.start, taken)?;
        self.tail.push(self.position, taken);
        if let Some(tap) = &self.tap {
            tap(self.position, taken);
        }
        let count = taken.len() as u64;
        self.known_at += taken.len();
        self.position += count;
        Ok(count)
    }

    /// Passes bytes that were read at the current position to the tap.
    fn report(&self, into: &BufferOf<S>, at: Range<u64>) -> Result<()> {
        let (Some(tap), mut position) = (&self.tap, self.position) else { return Ok(()) };
        into.inspect(at, &mut |bytes| {
            tap(position, bytes);
            position += bytes.len() as u64;
            Ok(())
        })
    }
}
