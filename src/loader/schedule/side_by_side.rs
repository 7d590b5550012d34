//! Reads the streams of a large component side by side, and joins them on this thread or on another.

use crate::error::{ErrorKind, Result};
use crate::index::{ByteStreams, Component};
use crate::loader::schedule::offload::{self, PendingComponent, ready};
use crate::loader::schedule::run::RunReader;
use crate::loader::schedule::target::{Target, unplanned};
use crate::loader::transfer::range_reader::{Chunk, RangeReader};
use crate::loader::transfer::streams::StreamReader;
use crate::pipeline::{Job, Received, StoredChunk, Task, TaskError, Work};
use crate::plan::WantedRange;
use crate::source::{Buffer, BufferOf, ModelSource};
use std::rc::Rc;

impl<S: ModelSource> RunReader<S> {
    /// Whether the streams of a component are read side by side. A digest of all its stored bytes needs them in order.
    /// So does the digest of a whole file, unless it can be continued at each stream.
    #[inline(never)] // so that it can be in another part of the npm package's module
    pub(crate) fn reads_side_by_side(&self, wanted: &WantedRange<Target>, task: &Task) -> bool {
        let component = &task.component;
        wanted.range == component.range
            && !task.needs_order()
            && self.file.reads_side_by_side(component)
            && self.file.is_readable_anywhere()
            && self.checks_take_streams(component)
            && self.share().is_some()
    }

    /// Whether the digests of the whole file can be continued at each stream.
    fn checks_take_streams(&self, component: &Component) -> bool {
        let Some(checks) = &self.batch.call.whole else { return true };
        let mut starts = component.streams().into_iter().flat_map(ByteStreams::later_starts);
        starts.all(|at| checks.can_start_at(self.share.shard, at))
    }

    /// Reads a component whose streams are read side by side. `reading` continues behind it.
    pub(crate) async fn side_by_side(
        &self,
        reading: &mut RangeReader<S>,
        component: &Component,
        task: Task,
        into: Option<BufferOf<S>>,
        name: &str,
    ) -> Result<PendingComponent<BufferOf<S>>> {
        self.share.claim(component.range.end);
        let streams = StreamReader::new(component.streams().ok_or_else(unplanned)?, reading);
        *reading = self.start(component.range.end..self.share.end().get().max(component.range.end));
        let again = into.is_none().then(|| task.clone());
        let joined = match self.start_offload(&task, into.as_ref()) {
            Some(work) => self.join_on_worker(streams, component, task, into, work, name).await,
            None => self.join_here(streams, Job::new(task, into)?, name).await.map(ready),
        };
        match (joined, again) {
            // A response did not prove its version: one request for the whole component needs no proof.
            (Err(error), Some(task)) if error.kind == ErrorKind::Changed && !self.file.proves_version() => {
                offload::read(&self.file, component.range.clone(), Job::new(task, None)?).await.map(ready)
            }
            (joined, _) => joined,
        }
    }

    async fn join_here(
        &self,
        mut streams: StreamReader<S>,
        mut job: Job<BufferOf<S>>,
        name: &str,
    ) -> Result<Received<BufferOf<S>>> {
        let mut free = None;
        while let Some(chunk) = streams.chunk(free, &mut |chunk| self.stream_arrived(chunk, name)).await? {
            let mut at = chunk.at;
            chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                job.push_at(at, bytes)?;
                at = at.map(|at| at + bytes.len() as u64);
                Ok(())
            })?;
            free = Some(chunk.buffer);
        }
        job.finish()
    }

    async fn join_on_worker(
        &self,
        mut streams: StreamReader<S>,
        component: &Component,
        task: Task,
        into: Option<BufferOf<S>>,
        work: Rc<dyn Work<BufferOf<S>>>,
        name: &str,
    ) -> Result<PendingComponent<BufferOf<S>>> {
        let free = || self.batch.pool.as_ref().and_then(|pool| pool.chunk());
        let mut is_worker_lost = false;
        while let Some(chunk) = streams.chunk(free(), &mut |chunk| self.stream_arrived(chunk, name)).await? {
            if is_worker_lost {
                continue;
            }
            match work.push(chunk).await {
                Ok(true) => self.batch.concurrency.borrow_mut().restart(),
                Ok(false) => {}
                Err(TaskError::Failed(error)) => return Err(error),
                Err(TaskError::WorkerLost) => is_worker_lost = true, // the component is read again at the end
            }
        }
        Ok(self.or_retry_locally(work.finish(), task, component.range.clone(), into))
    }

    /// Reports bytes that have arrived, and passes them to the checksums of the whole file.
    fn stream_arrived(&self, chunk: &StoredChunk<BufferOf<S>>, name: &str) -> Result<()> {
        let (start, length) = (chunk.at.unwrap_or_default(), chunk.length);
        self.checks().chunk(start, &Chunk { buffer: &chunk.buffer, start, length })?;
        self.arrived(start..start + length, Some(name));
        Ok(())
    }
}
