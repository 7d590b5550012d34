//! A raw component so large that several connections may read parts of it: its buffer, and what digests it.

use crate::error::{Error, ErrorKind, Result};
use crate::loader::decode::job::{Job, Received, Task};
use crate::loader::decode::pool::{Pool, TaskError, Work};
use crate::loader::transfer::range_reader::SCRATCH_BYTES;
use crate::source::Buffer;
use std::rc::Rc;

/// What no connection could digest in order is digested once all is there, so much at a time: a page should not stand
/// still meanwhile.
const SEGMENT_BYTES: u64 = 4 << 20;

/// A raw component on its way.
pub(crate) struct Large<B> {
    pub(crate) buffer: B,
    /// Where the buffer's first byte lies in the file.
    pub(crate) start: u64,
    /// To digest the bytes, which are kept here.
    pub(crate) task: Task,
    pub(crate) digesting: Digesting<B>,
    /// How many of the buffer's bytes were digested, from its start, or are about to be.
    digested: u64,
    /// How many parts are still on their way.
    pub(crate) parts: usize,
}

pub(crate) enum Digesting<B> {
    Here(Box<Job<B>>),
    /// Another thread gets copies of the bytes.
    Offloaded(Rc<dyn Work<B>>),
    /// Another thread gets the buffer, once all is there.
    Whole,
}

impl<B: Buffer> Large<B> {
    /// Of one part.
    pub(crate) fn new(buffer: B, start: u64, task: Task, pool: Option<&Rc<dyn Pool<B>>>) -> Result<Self> {
        let pool = pool.filter(|_| task.is_heavy());
        let digesting = match (pool.and_then(|pool| pool.begin(&task, None)), pool) {
            (Some(work), _) => Digesting::Offloaded(work),
            (None, Some(pool)) if pool.takes_whole(&task) => Digesting::Whole,
            _ => Digesting::Here(Box::new(Job::new(task.clone(), None)?)),
        };
        Ok(Large { buffer, start, task, digesting, digested: 0, parts: 1 })
    }

    /// Takes the first `length` bytes of `from`, which lie at `at` in the file. Gives who else is to have them.
    pub(crate) fn take(&mut self, at: u64, from: &B, length: u64) -> Result<Option<Rc<dyn Work<B>>>> {
        let into =
            at.checked_sub(self.start).ok_or_else(|| Error::new(ErrorKind::Internal, "a part begins too early"))?;
        self.buffer.copy(into, from, 0..length)?;
        if self.task.digests.is_empty() || into != self.digested {
            return Ok(None);
        }
        self.digested += length;
        match &mut self.digesting {
            Digesting::Here(job) => from.inspect(0..length, &mut |bytes| job.push(bytes)).map(|()| None),
            Digesting::Offloaded(work) => Ok(Some(Rc::clone(work))),
            Digesting::Whole => Ok(None),
        }
    }

    /// Digests what was not, and gives the component. `spare` gives buffers for chunks, `turn` is waited for again and
    /// again.
    pub(crate) async fn finish(mut self, spare: impl Fn() -> Option<B>, turn: impl AsyncFn()) -> Result<Received<B>> {
        let mut job = match self.digesting {
            Digesting::Here(job) => job,
            Digesting::Whole => Box::new(Job::new(self.task.clone(), None)?),
            Digesting::Offloaded(work) => match digest_offloaded(work, &self.buffer, self.digested, spare).await {
                Ok(verified) => return Ok(Received { buffer: Some(self.buffer), verified }),
                Err(TaskError::Failed(error)) => return Err(error),
                Err(TaskError::WorkerLost) => {
                    self.digested = 0;
                    Box::new(Job::new(self.task.clone(), None)?)
                }
            },
        };
        let length = if self.task.digests.is_empty() { 0 } else { self.buffer.byte_length() };
        while self.digested < length {
            let end = length.min(self.digested + SEGMENT_BYTES);
            self.buffer.inspect(self.digested..end, &mut |bytes| job.push(bytes))?;
            self.digested = end;
            turn().await;
        }
        Ok(Received { buffer: Some(self.buffer), ..job.finish()? })
    }
}

/// Has the bytes of `buffer` from `start` on digested by another thread, which had those before.
async fn digest_offloaded<B: Buffer>(
    work: Rc<dyn Work<B>>,
    buffer: &B,
    mut start: u64,
    spare: impl Fn() -> Option<B>,
) -> Result<Option<&'static str>, TaskError> {
    while start < buffer.byte_length() {
        let length = SCRATCH_BYTES.min(buffer.byte_length() - start);
        let mut chunk = spare().map_or_else(|| B::allocate(SCRATCH_BYTES), Ok).map_err(TaskError::Failed)?;
        chunk.copy(0, buffer, start..start + length).map_err(TaskError::Failed)?;
        work.push(chunk, length).await?;
        start += length;
    }
    work.finish().await.map(|received| received.verified)
}
