//! A raw component that is large enough for several connections to read parts of it: its buffer and its digest.

use crate::algorithm::Algorithm;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::transfer::SCRATCH_BYTES;
use crate::pipeline::{Job, Pool, Received, StoredChunk, Task, TaskError, Work};
use crate::source::Buffer;
use std::rc::Rc;

/// Bytes that could not be digested in order as they arrived are digested at the end, in segments of this length.
/// Between segments the task yields, so that a page stays responsive.
const SEGMENT_BYTES: u64 = 4 << 20;

/// A large raw component that is being read.
pub(crate) struct LargeComponent<B> {
    pub(crate) buffer: B,
    /// The offset of the buffer's first byte in the file.
    pub(crate) start: u64,
    /// The task that digests the bytes. It stores none: the bytes are in `buffer`.
    pub(crate) task: Task,
    pub(crate) digesting: Digesting<B>,
    /// Length of the buffer's prefix that was digested, or passed on to be digested.
    digested: u64,
    /// Number of parts that are still being read.
    pub(crate) parts: usize,
}

pub(crate) enum Digesting<B> {
    Local(Box<Job<B>>),
    /// Another thread receives copies of the bytes.
    Offloaded(Rc<dyn Work<B>>),
    /// Another thread receives the buffer once it is complete.
    Whole,
}

impl<B: Buffer> LargeComponent<B> {
    /// Creates a component with one part.
    pub(crate) fn new(buffer: B, start: u64, task: Task, pool: Option<&Rc<dyn Pool<B>>>) -> Result<Self> {
        let pool = pool.filter(|_| task.is_heavy());
        let digesting = match (pool.and_then(|pool| pool.begin(&task, None)), pool) {
            (Some(work), _) => Digesting::Offloaded(work),
            (None, Some(pool)) if pool.takes_whole(&task) => Digesting::Whole,
            _ => Digesting::Local(Box::new(Job::new(task.clone(), None)?)),
        };
        Ok(LargeComponent { buffer, start, task, digesting, digested: 0, parts: 1 })
    }

    /// Copies the first `length` bytes of `from`, which are at offset `at` of the file. If another thread digests the
    /// bytes as they arrive, returns the work that the caller must push them to.
    pub(crate) fn write(&mut self, at: u64, from: &B, length: u64) -> Result<Option<Rc<dyn Work<B>>>> {
        let before_start = || Error::new(ErrorKind::Internal, "a part starts before its component");
        let into = at.checked_sub(self.start).ok_or_else(before_start)?;
        self.buffer.copy(into, from, 0..length)?;
        if !self.task.has_checks() || into != self.digested {
            return Ok(None);
        }
        self.digested += length;
        match &mut self.digesting {
            Digesting::Local(job) => from.inspect(0..length, &mut |bytes| job.push(bytes)).map(|()| None),
            Digesting::Offloaded(work) => Ok(Some(Rc::clone(work))),
            Digesting::Whole => Ok(None),
        }
    }

    /// Digests the rest of the bytes and returns the component. `free_buffer` returns a buffer for a chunk, if there is
    /// one. `yield_now` is awaited after each segment.
    pub(crate) async fn finish(
        mut self,
        free_buffer: impl Fn() -> Option<B>,
        yield_now: impl AsyncFn(),
    ) -> Result<Received<B>> {
        if !self.task.has_checks() {
            return Ok(Received { buffer: Some(self.buffer), verified: None, blocks: Vec::new() });
        }
        let mut job = match self.digesting {
            Digesting::Local(job) => job,
            Digesting::Whole => Box::new(Job::new(self.task.clone(), None)?),
            Digesting::Offloaded(work) => {
                match digest_offloaded(work, &self.buffer, self.digested, free_buffer).await {
                    Ok(verified) => return Ok(Received { buffer: Some(self.buffer), verified, blocks: Vec::new() }),
                    Err(TaskError::Failed(error)) => return Err(error),
                    Err(TaskError::WorkerLost) => {
                        self.digested = 0;
                        Box::new(Job::new(self.task.clone(), None)?)
                    }
                }
            }
        };
        let length = self.buffer.byte_length();
        while self.digested < length {
            let end = length.min(self.digested + SEGMENT_BYTES);
            self.buffer.inspect(self.digested..end, &mut |bytes| job.push(bytes))?;
            self.digested = end;
            yield_now().await;
        }
        Ok(Received { buffer: Some(self.buffer), ..job.finish()? })
    }
}

/// Digests the bytes of `buffer` from `start` on another thread, which has received the bytes before `start`.
async fn digest_offloaded<B: Buffer>(
    work: Rc<dyn Work<B>>,
    buffer: &B,
    mut start: u64,
    free_buffer: impl Fn() -> Option<B>,
) -> Result<Option<Algorithm>, TaskError> {
    while start < buffer.byte_length() {
        let length = SCRATCH_BYTES.min(buffer.byte_length() - start);
        let mut chunk = free_buffer().map_or_else(|| B::allocate(SCRATCH_BYTES), Ok).map_err(TaskError::Failed)?;
        chunk.copy(0, buffer, start..start + length).map_err(TaskError::Failed)?;
        work.push(StoredChunk::next(chunk, length)).await?;
        start += length;
    }
    work.finish().await.map(|received| received.verified)
}
