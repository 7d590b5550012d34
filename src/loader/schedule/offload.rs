//! Offloads decoding and digesting of components to other threads while this thread continues to read.

use crate::error::Result;
use crate::loader::schedule::run::RunReader;
use crate::loader::schedule::target::Target;
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::truncated::truncated_error;
use crate::pipeline::{Job, Outcome, Received, StoredChunk, Task, TaskError, Work};
use crate::plan::WantedRange;
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::future::{self, FutureExt, LocalBoxFuture};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// A component that is being decoded or digested.
pub(crate) type PendingComponent<B> = LocalBoxFuture<'static, Result<Received<B>>>;

/// A component that is already decoded and digested.
pub(crate) fn ready<B: 'static>(received: Received<B>) -> PendingComponent<B> {
    future::ready(Ok(received)).boxed_local()
}

impl<S: ModelSource> RunReader<S> {
    /// Starts a heavy task on another thread, if the pool accepts it.
    pub(crate) fn start_offload(&self, task: &Task, into: Option<&BufferOf<S>>) -> Option<Rc<dyn Work<BufferOf<S>>>> {
        let pool = self.batch.pool.as_ref().filter(|_| task.is_heavy())?;
        match into {
            None => pool.begin(task, None),
            Some(into) => pool.begin(task, Some(into.share()?)),
        }
    }

    /// Sends the bytes to another thread, chunk by chunk, until the task needs no more.
    pub(crate) async fn offload_chunks(
        &self,
        reading: &mut RangeReader<S>,
        wanted: &WantedRange<Target>,
        task: Task,
        into: Option<BufferOf<S>>,
        work: Rc<dyn Work<BufferOf<S>>>,
        name: &str,
    ) -> Result<PendingComponent<BufferOf<S>>> {
        let mut checks = self.checks();
        let mut is_worker_lost = false;
        while reading.position < wanted.range.end && work.wants_more() {
            let start = reading.position;
            let chunk = self.chunk(reading, &wanted.range).await?;
            let length = chunk.length;
            checks.chunk(start, &chunk)?;
            self.arrived(start..start + length, Some(name));
            if is_worker_lost {
                continue;
            }
            let Some(chunk) = reading.take_chunk() else { continue };
            match work.push(StoredChunk::next(chunk, length)).await {
                Ok(true) => self.batch.concurrency.borrow_mut().restart(),
                Ok(false) => {}
                Err(TaskError::Failed(error)) => return Err(error),
                Err(TaskError::WorkerLost) => is_worker_lost = true, // the component is read again at the end
            }
        }
        Ok(self.or_retry_locally(work.finish(), task, wanted.range.clone(), into))
    }

    /// Digests the raw component at `range`, on another thread if the pool accepts it.
    pub(crate) fn digest(
        &self,
        task: Task,
        range: Range<u64>,
        buffer: BufferOf<S>,
    ) -> Result<PendingComponent<BufferOf<S>>> {
        let into = buffer.share();
        let offloaded = match &self.batch.pool {
            Some(pool) => pool.digest(&task, buffer),
            None => Err(buffer),
        };
        match offloaded {
            Ok(outcome) => Ok(self.or_retry_locally(outcome, task, range, into)),
            Err(buffer) => {
                let length = buffer.byte_length();
                let mut job = Job::new(task, Some(buffer))?;
                job.filled(length, None)?;
                job.finish().map(ready)
            }
        }
    }

    /// The outcome of an offloaded task for the component at `range`. If the worker is lost, reads the component again
    /// and processes it on this thread.
    pub(crate) fn or_retry_locally(
        &self,
        outcome: Outcome<BufferOf<S>>,
        task: Task,
        range: Range<u64>,
        into: Option<BufferOf<S>>,
    ) -> PendingComponent<BufferOf<S>> {
        let file = Rc::clone(&self.file);
        let received = async move {
            match outcome.await {
                Ok(received) => Ok(Received { buffer: received.buffer.or(into), ..received }),
                Err(TaskError::Failed(error)) => Err(error),
                Err(TaskError::WorkerLost) => read(&file, range, Job::new(task, into)?).await,
            }
        };
        received.boxed_local()
    }
}

/// Reads only the component at `range`. Its pages and its file were checked when the bytes first arrived.
pub(crate) async fn read<S: ModelSource>(
    file: &Rc<ModelFile<S>>,
    range: Range<u64>,
    mut job: Job<BufferOf<S>>,
) -> Result<Received<BufferOf<S>>> {
    let mut reading = file.start(range.clone(), Rc::new(Cell::new(range.end)));
    while reading.position < range.end && job.wants_more() {
        let at = reading.position;
        let chunk = reading.chunk((range.end - at).min(SCRATCH_BYTES)).await?;
        let chunk = chunk.ok_or_else(|| truncated_error(range.start, at, range.end))?;
        chunk.buffer.inspect(0..chunk.length, &mut |bytes| job.push(bytes))?;
    }
    job.finish()
}
