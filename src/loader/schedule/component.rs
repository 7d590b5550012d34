//! Reads one component, and decodes and digests it as it arrives, on this thread or on another.

use crate::algorithm::Algorithm;
use crate::error::Result;
use crate::index::{Component, ComponentDigest};
use crate::loader::schedule::offload::{PendingComponent, ready};
use crate::loader::schedule::run::{ComponentFuture, RunReader};
use crate::loader::schedule::target::Target;
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::range_reader::{Chunk, MAX_DIRECT_BYTES, RangeReader};
use crate::loader::transfer::truncated::truncated_error;
use crate::pipeline::{Job, Received, Task};
use crate::plan::WantedRange;
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::future::FutureExt;
use std::ops::Range;
use std::rc::Rc;

impl<S: ModelSource> RunReader<S> {
    /// Reads the component of the tensor called `name`.
    pub(crate) async fn component(
        &self,
        reading: &mut RangeReader<S>,
        wanted: &WantedRange<Target>,
        component: &Component,
        name: &str,
    ) -> Result<ComponentFuture<BufferOf<S>>> {
        let Target { slot, component: index } = wanted.target;
        let task = self.batch.task(slot, component)?;
        let digests = task.digests.clone();
        let into = self.batch.take_into(slot);
        // Boxed, because it is deferred: only a deferred format has streams.
        let receiving = if component.streams().is_some() && self.reads_side_by_side(wanted, &task) {
            self.side_by_side(reading, component, task, into, name).boxed_local().await?
        } else if self.batch.is_direct(&task) {
            self.fill(reading, wanted, task, into, name).await?
        } else if let Some(work) = self.start_offload(&task, into.as_ref()) {
            self.offload_chunks(reading, wanted, task, into, work, name).await?
        } else {
            ready(self.decode(reading, wanted, Job::new(task, into)?, name).await?)
        };
        Ok(self.arrival(slot, index, component, digests, name, receiving))
    }

    /// The future that resolves when the component is decoded and digested.
    pub(crate) fn arrival(
        &self,
        slot: usize,
        index: usize,
        component: &Component,
        digests: Vec<ComponentDigest>,
        name: &str,
        receiving: PendingComponent<BufferOf<S>>,
    ) -> ComponentFuture<BufferOf<S>> {
        let by_pages = self.batch.pages_of(slot, index).is_some();
        let cut = self.batch.span_start(slot);
        let (file, component, name) = (Rc::clone(&self.file), component.clone(), name.to_owned());
        let arrival = async move {
            let learn = |received: Received<_>| {
                file.blocks.learn(&component, cut, &received.blocks)?;
                Ok(received)
            };
            let mut received =
                receiving.await.and_then(learn).map_err(|e| file.reject_if_corrupt(e.in_tensor(&name)))?;
            file.confirm_contents(&component, &digests);
            // The component is held until its pages are verified.
            received.verified = received.verified.or(by_pages.then_some(Algorithm::Blake3));
            Ok((slot, index, received))
        };
        arrival.boxed_local()
    }

    /// Reads the bytes directly into the component's own buffer.
    async fn fill(
        &self,
        reading: &mut RangeReader<S>,
        wanted: &WantedRange<Target>,
        mut task: Task,
        into: Option<BufferOf<S>>,
        name: &str,
    ) -> Result<PendingComponent<BufferOf<S>>> {
        let heavy = task.is_heavy().then(|| task.clone());
        if heavy.is_some() {
            task.digests.clear(); // they are checked after the last byte
        }
        let mut job = Job::new(task, into)?;
        while reading.position < wanted.range.end {
            let Some(buffer) = job.buffer() else { break };
            let at = reading.position;
            let (into, count) = (at - wanted.range.start, (wanted.range.end - at).min(MAX_DIRECT_BYTES));
            self.share.claim(at + count);
            let mut arrived = |range| self.arrived(range, Some(name));
            reading.fill(buffer, into..into + count, &mut arrived).await?;
            let (mut checks, mut at) = (self.checks(), at);
            let are_needed = checks.are_needed(&(at..at + count));
            let mut check = |bytes: &[u8]| {
                checks.stored(at, bytes)?;
                at += bytes.len() as u64;
                Ok(())
            };
            job.filled(count, are_needed.then_some(&mut check))?;
        }
        match (heavy, job.finish()?) {
            (Some(task), Received { buffer: Some(buffer), .. }) => self.digest(task, wanted.range.clone(), buffer),
            (_, received) => Ok(ready(received)),
        }
    }

    /// Passes the bytes to the job, chunk by chunk, until the job needs no more.
    async fn decode(
        &self,
        reading: &mut RangeReader<S>,
        wanted: &WantedRange<Target>,
        mut job: Job<BufferOf<S>>,
        name: &str,
    ) -> Result<Received<BufferOf<S>>> {
        let mut checks = self.checks();
        while reading.position < wanted.range.end && job.wants_more() {
            let start = reading.position;
            let chunk = self.chunk(reading, &wanted.range).await?;
            let mut at = start;
            chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                checks.stored(at, bytes)?;
                at += bytes.len() as u64;
                job.push(bytes)
            })?;
            let length = chunk.length;
            self.arrived(start..start + length, Some(name));
        }
        job.finish()
    }

    /// Reads the next chunk of the component at `range`.
    pub(crate) async fn chunk<'a>(
        &self,
        reading: &'a mut RangeReader<S>,
        range: &Range<u64>,
    ) -> Result<Chunk<'a, BufferOf<S>>> {
        let at = reading.position;
        let count = (range.end - at).min(SCRATCH_BYTES);
        self.share.claim(at + count);
        self.next_chunk(reading, count).await?.ok_or_else(|| truncated_error(range.start, at, range.end))
    }

    /// Like [`RangeReader::chunk`]. If the last buffer was sent to another thread, this reuses one that such a thread
    /// returned. Every sent buffer is returned, so allocating a new buffer each time would accumulate buffers.
    pub(crate) async fn next_chunk<'a>(
        &self,
        reading: &'a mut RangeReader<S>,
        limit: u64,
    ) -> Result<Option<Chunk<'a, BufferOf<S>>>> {
        if let Some(pool) = &self.batch.pool {
            reading.provide_buffer(|| pool.chunk());
        }
        reading.chunk(limit).await
    }
}
