//! Components that other threads decode or digest, while this one reads on.

use crate::error::Result;
use crate::loader::BufferOf;
use crate::loader::decode::job::{Job, Received, Task};
use crate::loader::decode::pool::{Outcome, TaskError, Work};
use crate::loader::schedule::run::RunReader;
use crate::loader::schedule::target::Target;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::{RangeReader, SCRATCH_BYTES, cut};
use crate::plan::Wanted;
use crate::source::{Buffer, Source};
use futures::future::{self, FutureExt, LocalBoxFuture};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// A component that is being decoded or digested.
pub(crate) type Receiving<B> = LocalBoxFuture<'static, Result<Received<B>>>;

/// One that is done.
pub(crate) fn ready<B: 'static>(received: Received<B>) -> Receiving<B> {
    future::ready(Ok(received)).boxed_local()
}

impl<S: Source> RunReader<S> {
    /// Gives a task to another thread, if that pays and can be.
    pub(crate) fn begin_offloaded(&self, task: &Task, into: Option<&BufferOf<S>>) -> Option<Rc<dyn Work<BufferOf<S>>>> {
        let pool = self.batch.pool.as_ref().filter(|_| task.is_heavy())?;
        match into {
            None => pool.begin(task, None),
            Some(into) => pool.begin(task, Some(into.share()?)),
        }
    }

    /// Passes the bytes on, chunk by chunk, for as long as there is use for them.
    pub(crate) async fn hand_over(
        &self,
        reading: &mut RangeReader<S>,
        wanted: &Wanted<Target>,
        task: Task,
        into: Option<BufferOf<S>>,
        work: Rc<dyn Work<BufferOf<S>>>,
        name: &str,
    ) -> Result<Receiving<BufferOf<S>>> {
        let mut checks = self.checks();
        let mut is_lost = false;
        while reading.position < wanted.range.end && work.wants_more() {
            let start = reading.position;
            let chunk = self.chunk(reading, &wanted.range).await?;
            let length = chunk.length;
            checks.chunk(start, &chunk)?;
            self.arrived(start..start + length, Some(name));
            if is_lost {
                continue;
            }
            let Some(chunk) = reading.take_chunk() else { continue };
            match work.push(chunk, length).await {
                Ok(true) => self.batch.concurrency.borrow_mut().restart(),
                Ok(false) => {}
                Err(TaskError::Failed(error)) => return Err(error),
                Err(TaskError::WorkerLost) => is_lost = true, // what was read is read again
            }
        }
        Ok(self.or_read_again(work.finish(), task, wanted.range.clone(), into))
    }

    /// Digests a raw component that lies at `range`, here or elsewhere.
    pub(crate) fn digest(&self, task: Task, range: Range<u64>, buffer: BufferOf<S>) -> Result<Receiving<BufferOf<S>>> {
        let into = buffer.share();
        let elsewhere = match &self.batch.pool {
            Some(pool) => pool.digest(&task, buffer),
            None => Err(buffer),
        };
        match elsewhere {
            Ok(outcome) => Ok(self.or_read_again(outcome, task, range, into)),
            Err(buffer) => {
                let length = buffer.byte_length();
                let mut job = Job::new(task, Some(buffer))?;
                job.filled(length, None)?;
                job.finish().map(ready)
            }
        }
    }

    /// What another thread makes of the component at `range`. If that thread is lost, it is read and done here.
    fn or_read_again(
        &self,
        outcome: Outcome<BufferOf<S>>,
        task: Task,
        range: Range<u64>,
        into: Option<BufferOf<S>>,
    ) -> Receiving<BufferOf<S>> {
        let file = Rc::clone(&self.file);
        let received = async move {
            match outcome.await {
                Ok(Received { buffer, verified }) => Ok(Received { buffer: buffer.or(into), verified }),
                Err(TaskError::Failed(error)) => Err(error),
                Err(TaskError::WorkerLost) => read(&file, range, Job::new(task, into)?).await,
            }
        };
        received.boxed_local()
    }
}

/// Reads the component at `range` for itself. What its bytes are part of was checked when they came by first.
async fn read<S: Source>(
    file: &Rc<ModelFile<S>>,
    range: Range<u64>,
    mut job: Job<BufferOf<S>>,
) -> Result<Received<BufferOf<S>>> {
    let mut reading = file.start(range.clone(), Rc::new(Cell::new(range.end)));
    while reading.position < range.end && job.wants_more() {
        let at = reading.position;
        let chunk = reading.chunk((range.end - at).min(SCRATCH_BYTES)).await?;
        let chunk = chunk.ok_or_else(|| cut(range.start, at, range.end))?;
        chunk.buffer.inspect(0..chunk.length, &mut |bytes| job.push(bytes))?;
    }
    job.finish()
}
