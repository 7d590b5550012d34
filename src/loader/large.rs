//! Components so large that several connections may bring parts of them.

use super::BufferOf;
use super::job::{Job, Received, Task};
use super::operation::{Operation, Purpose, unplanned};
use super::pool::{Pool, Trouble, Work};
use super::reading::{MAX_DIRECT_BYTES, Reading, SCRATCH_BYTES, cut};
use super::run::{Arrival, RunReader};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Encoding};
use crate::plan::Wanted;
use crate::source::{Buffer, Source};
use futures::future::FutureExt;
use std::rc::Rc;

/// What no connection could digest in order is digested once all is there, so much at a time: a page should not stand
/// still meanwhile.
const SEGMENT_BYTES: u64 = 4 << 20;

/// A raw component on its way.
pub(crate) struct Large<B> {
    buffer: B,
    /// Where the buffer's first byte lies in the file.
    start: u64,
    /// To digest the bytes, which are kept here.
    task: Task,
    digesting: Digesting<B>,
    /// How many of the buffer's bytes were digested, from its start, or are about to be.
    digested: u64,
    /// How many parts are still on their way.
    parts: usize,
}

enum Digesting<B> {
    Here(Box<Job<B>>),
    /// Another thread gets copies of the bytes.
    Elsewhere(Rc<dyn Work<B>>),
    /// Another thread gets the buffer, once all is there.
    Whole,
}

impl<B: Buffer> Large<B> {
    /// Of one part.
    fn new(buffer: B, start: u64, task: Task, pool: Option<&Rc<dyn Pool<B>>>) -> Result<Self> {
        let pool = pool.filter(|_| task.is_heavy());
        let digesting = match (pool.and_then(|pool| pool.begin(&task, None)), pool) {
            (Some(work), _) => Digesting::Elsewhere(work),
            (None, Some(pool)) if pool.takes_whole(&task) => Digesting::Whole,
            _ => Digesting::Here(Box::new(Job::new(task.clone(), None)?)),
        };
        Ok(Large { buffer, start, task, digesting, digested: 0, parts: 1 })
    }

    /// Takes the first `length` bytes of `from`, which lie at `at` in the file. Gives who else is to have them.
    fn take(&mut self, at: u64, from: &B, length: u64) -> Result<Option<Rc<dyn Work<B>>>> {
        let into =
            at.checked_sub(self.start).ok_or_else(|| Error::new(ErrorKind::Internal, "a part begins too early"))?;
        self.buffer.copy(into, from, 0..length)?;
        if self.task.digests.is_empty() || into != self.digested {
            return Ok(None);
        }
        self.digested += length;
        match &mut self.digesting {
            Digesting::Here(job) => from.inspect(0..length, &mut |bytes| job.push(bytes)).map(|()| None),
            Digesting::Elsewhere(work) => Ok(Some(Rc::clone(work))),
            Digesting::Whole => Ok(None),
        }
    }

    /// Digests what was not, and gives the component. `spare` gives buffers for chunks, `turn` is waited for again and again.
    async fn finish(mut self, spare: impl Fn() -> Option<B>, turn: impl AsyncFn()) -> Result<Received<B>> {
        let mut job = match self.digesting {
            Digesting::Here(job) => job,
            Digesting::Whole => Box::new(Job::new(self.task.clone(), None)?),
            Digesting::Elsewhere(work) => match digest_elsewhere(work, &self.buffer, self.digested, spare).await {
                Ok(verified) => return Ok(Received { buffer: Some(self.buffer), verified }),
                Err(Trouble::Failed(error)) => return Err(error),
                Err(Trouble::Lost) => {
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
async fn digest_elsewhere<B: Buffer>(
    work: Rc<dyn Work<B>>,
    buffer: &B,
    mut start: u64,
    spare: impl Fn() -> Option<B>,
) -> Result<Option<&'static str>, Trouble> {
    while start < buffer.byte_length() {
        let length = SCRATCH_BYTES.min(buffer.byte_length() - start);
        let mut chunk = spare().map_or_else(|| B::allocate(SCRATCH_BYTES), Ok).map_err(Trouble::Failed)?;
        chunk.copy(0, buffer, start..start + length).map_err(Trouble::Failed)?;
        work.push(chunk, length).await?;
        start += length;
    }
    work.finish().await.map(|received| received.verified)
}

impl<S: Source> Operation<S> {
    /// Whether the component comes in parts, for the first of which its buffer is allocated here.
    pub(super) fn begin_large(&self, order: usize, index: usize, component: &Component) -> Result<bool> {
        if self.large.borrow().contains_key(&(order, index)) {
            return Ok(true);
        }
        let keep = self.keep(order, component)?;
        let is_large = keep.end.saturating_sub(keep.start) > MAX_DIRECT_BYTES && keep.end <= stored_length(component);
        if !self.keeps(order) || component.encoding != Encoding::Raw || !is_large {
            return Ok(false);
        }
        let start = component.range.start + keep.start;
        let task = Task { keeps: false, ..self.task(order, component, &(start..component.range.start + keep.end))? };
        let buffer = match self.take_into(order) {
            Some(buffer) => buffer,
            None => BufferOf::<S>::allocate(keep.end - keep.start)?,
        };
        self.large.borrow_mut().insert((order, index), Large::new(buffer, start, task, self.pool.as_ref())?);
        Ok(true)
    }

    /// Whether several connections can bring what is being read.
    pub(super) fn is_divisible(&self, purpose: Purpose) -> bool {
        key(purpose).is_ok_and(|key| self.large.borrow().contains_key(&key))
    }

    /// Another connection brings a part of a large component.
    pub(super) fn add_part(&self, purpose: Purpose) {
        if let Ok(key) = key(purpose)
            && let Some(large) = self.large.borrow_mut().get_mut(&key)
        {
            large.parts += 1;
        }
    }

    fn take_part(
        &self,
        purpose: Purpose,
        at: u64,
        from: &BufferOf<S>,
        length: u64,
    ) -> Result<Option<Rc<dyn Work<BufferOf<S>>>>> {
        self.large.borrow_mut().get_mut(&key(purpose)?).ok_or_else(unplanned)?.take(at, from, length)
    }

    /// The component, if its last part has come.
    fn end_part(&self, purpose: Purpose) -> Result<Option<Large<BufferOf<S>>>> {
        let (key, mut all) = (key(purpose)?, self.large.borrow_mut());
        let large = all.get_mut(&key).ok_or_else(unplanned)?;
        large.parts = large.parts.saturating_sub(1);
        Ok(if large.parts == 0 { all.remove(&key) } else { None })
    }
}

pub(super) fn key(purpose: Purpose) -> Result<(usize, usize)> {
    match purpose {
        Purpose::Component { order, component } => Ok((order, component)),
        Purpose::Gap => Err(unplanned()),
    }
}

fn stored_length(component: &Component) -> u64 {
    component.range.end - component.range.start
}

impl<S: Source> RunReader<S> {
    /// Reads a part of a large component, of which another connection may take the end meanwhile. Gives the component
    /// if it was the last part.
    pub(super) async fn large(
        &self,
        reading: &mut Reading<S>,
        wanted: &Wanted<Purpose>,
        component: &Component,
        name: &str,
    ) -> Result<Option<Arrival<BufferOf<S>>>> {
        let mut checks = self.checks();
        while reading.position < self.share.end_of_current() {
            let (at, end) = (reading.position, self.share.end_of_current());
            let count = (end - at).min(SCRATCH_BYTES);
            self.share.claim(at + count);
            let chunk = self.next_chunk(reading, count).await?.ok_or_else(|| cut(wanted.range.start, at, end))?;
            let length = chunk.length;
            checks.chunk(at, &chunk)?;
            let work = self.operation.take_part(wanted.purpose, at, chunk.buffer, length)?;
            self.arrived(at..at + length, Some(name));
            if let (Some(work), Some(chunk)) = (work.as_ref(), work.as_ref().and_then(|_| reading.take_chunk())) {
                // What is wrong there is told at the end.
                if work.push(chunk, length).await.is_ok_and(|has_waited| has_waited) {
                    self.operation.pace.borrow_mut().restart();
                }
            }
        }
        let Some(large) = self.operation.end_part(wanted.purpose)? else { return Ok(None) };
        let (order, index) = key(wanted.purpose)?;
        let file = Rc::clone(&self.file);
        let digests = large.task.digests.clone();
        let receiving = match large.digesting {
            Digesting::Whole => {
                let range = large.start..large.start + large.buffer.byte_length();
                self.digest(Task { keeps: true, ..large.task }, range, large.buffer)?
            }
            _ => {
                let pool = self.operation.pool.clone();
                let spare = move || pool.as_ref()?.chunk();
                large.finish(spare, async move || file.source.pause(0).await).boxed_local()
            }
        };
        Ok(Some(self.arrival(order, index, component, digests, name, receiving)))
    }
}
