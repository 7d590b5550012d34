//! Reads a large component in parts, over several connections.

use crate::error::Result;
use crate::index::{Component, Encoding};
use crate::loader::schedule::batch::Batch;
use crate::loader::schedule::large::{Digesting, LargeComponent};
use crate::loader::schedule::run::{ComponentFuture, RunReader};
use crate::loader::schedule::target::{Target, unplanned};
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::range_reader::{MAX_DIRECT_BYTES, RangeReader};
use crate::loader::transfer::truncated::truncated_error;
use crate::pipeline::{Extent, StoredChunk, Task, Work};
use crate::plan::WantedRange;
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::future::FutureExt;
use std::rc::Rc;

impl<S: ModelSource> Batch<S> {
    /// Whether the component is read in parts. Allocates its buffer on the first call.
    pub(crate) fn begin_large(&self, slot: usize, index: usize, component: &Component) -> Result<bool> {
        if self.is_divisible(Target { slot, component: index }) {
            return Ok(true);
        }
        if self.conversion(slot)?.is_some() {
            return Ok(false); // the elements are converted in order, as they arrive
        }
        let Extent { wanted, stored, .. } = self.extent_of(slot, component)?;
        let is_large = wanted.end.saturating_sub(wanted.start) > MAX_DIRECT_BYTES && stored.end <= component.range.end;
        if !self.stores_output(slot) || component.encoding != Encoding::Raw || !is_large {
            return Ok(false);
        }
        let task = Task { stores_output: false, ..self.task(slot, component)? };
        let buffer = match self.take_into(slot) {
            Some(buffer) => buffer,
            None => BufferOf::<S>::allocate(wanted.end - wanted.start)?,
        };
        self.large.borrow_mut().add(
            Target { slot, component: index },
            LargeComponent::new(buffer, stored.start, task, self.pool.as_ref())?,
        );
        Ok(true)
    }

    /// Whether several connections can read parts of the target.
    pub(crate) fn is_divisible(&self, target: Target) -> bool {
        self.large.borrow().get(&target).is_some()
    }

    /// Registers another connection that reads a part of a large component.
    pub(crate) fn add_part(&self, target: Target) {
        if let Some(large) = self.large.borrow_mut().get_mut(&target) {
            large.parts += 1;
        }
    }

    fn write_part(
        &self,
        target: Target,
        at: u64,
        from: &BufferOf<S>,
        length: u64,
    ) -> Result<Option<Rc<dyn Work<BufferOf<S>>>>> {
        self.large.borrow_mut().get_mut(&target).ok_or_else(unplanned)?.write(at, from, length)
    }

    /// Ends a part. Returns the component if this was its last part.
    fn end_part(&self, target: Target) -> Result<Option<LargeComponent<BufferOf<S>>>> {
        let mut all = self.large.borrow_mut();
        let large = all.get_mut(&target).ok_or_else(unplanned)?;
        large.parts = large.parts.saturating_sub(1);
        Ok(if large.parts == 0 { all.remove(&target) } else { None })
    }
}

impl<S: ModelSource> RunReader<S> {
    /// Reads a part of a large component. Another connection may take over the end of the part meanwhile. Returns the
    /// component if this was its last part.
    pub(crate) async fn large(
        &self,
        reading: &mut RangeReader<S>,
        wanted: &WantedRange<Target>,
        component: &Component,
        name: &str,
    ) -> Result<Option<ComponentFuture<BufferOf<S>>>> {
        let mut checks = self.checks();
        while reading.position < self.share.end_of_current() {
            let (at, end) = (reading.position, self.share.end_of_current());
            let count = (end - at).min(SCRATCH_BYTES);
            self.share.claim(at + count);
            let chunk =
                self.next_chunk(reading, count).await?.ok_or_else(|| truncated_error(wanted.range.start, at, end))?;
            let length = chunk.length;
            checks.chunk(at, &chunk)?;
            let work = self.batch.write_part(wanted.target, at, chunk.buffer, length)?;
            self.arrived(at..at + length, Some(name));
            if let (Some(work), Some(chunk)) = (work.as_ref(), work.as_ref().and_then(|_| reading.take_chunk())) {
                // `LargeComponent::finish` reports errors of the worker.
                if work.push(StoredChunk::next(chunk, length)).await.is_ok_and(|has_waited| has_waited) {
                    self.batch.concurrency.borrow_mut().restart();
                }
            }
        }
        let Some(large) = self.batch.end_part(wanted.target)? else { return Ok(None) };
        let Target { slot, component: index } = wanted.target;
        let file = Rc::clone(&self.file);
        let digests = large.task.digests.clone();
        let receiving = match large.digesting {
            Digesting::Whole => {
                let range = large.start..large.start + large.buffer.byte_length();
                self.digest(Task { stores_output: true, ..large.task }, range, large.buffer)?
            }
            _ => {
                let pool = self.batch.pool.clone();
                let free_buffer = move || pool.as_ref()?.chunk();
                large.finish(free_buffer, async move || file.source.host().pause(0).await).boxed_local()
            }
        };
        Ok(Some(self.arrival(slot, index, component, digests, name, receiving)))
    }
}
