//! One component on its way: read, decoded and digested as it comes.

use super::BufferOf;
use super::job::Job;
use super::large::key;
use super::operation::Purpose;
use super::reading::{MAX_DIRECT_BYTES, Reading, SCRATCH_BYTES, cut};
use super::run::{Arrival, RunReader};
use crate::error::Result;
use crate::index::Component;
use crate::plan::Wanted;
use crate::source::{Buffer, Source};
use futures::future::{self, FutureExt};

impl<S: Source> RunReader<S> {
    /// Reads the component of the tensor called `name`.
    pub(super) async fn component(
        &self,
        reading: &mut Reading<S>,
        wanted: &Wanted<Purpose>,
        component: &Component,
        name: &str,
    ) -> Result<Arrival<BufferOf<S>>> {
        let (order, index) = key(wanted.purpose)?;
        let task = self.operation.task(order, component, &wanted.range)?;
        let digests = task.digests.clone();
        let mut job = Job::new(task, self.operation.take_into(order))?;
        if job.buffer().is_some() {
            self.fill(reading, wanted, &mut job, name).await?;
        } else {
            self.decode(reading, wanted, &mut job, name).await?;
        }
        let mut received = job.finish()?;
        self.file.confirm_contents(component, &digests);
        let by_pages = self.operation.pages_of(order, index).is_some();
        received.verified = received.verified.or(by_pages.then_some("blake3")); // it is held until they are checked
        Ok(future::ready(Ok((order, index, received))).boxed_local())
    }

    /// Has the bytes put into the component's own buffer.
    async fn fill(
        &self,
        reading: &mut Reading<S>,
        wanted: &Wanted<Purpose>,
        job: &mut Job<BufferOf<S>>,
        name: &str,
    ) -> Result<()> {
        while reading.position < wanted.range.end {
            let Some(buffer) = job.buffer() else { break };
            let at = reading.position;
            let (into, count) = (at - wanted.range.start, (wanted.range.end - at).min(MAX_DIRECT_BYTES));
            self.share.claim(at + count);
            let mut arrived = |range| self.arrived(range, Some(name));
            reading.fill(buffer, into..into + count, &mut arrived).await?;
            let (mut checks, mut at) = (self.checks(), at);
            let is_needed = checks.is_needed();
            let mut check = |bytes: &[u8]| {
                checks.stored(at, bytes)?;
                at += bytes.len() as u64;
                Ok(())
            };
            job.filled(count, is_needed.then_some(&mut check))?;
        }
        Ok(())
    }

    /// Passes the bytes to the job, chunk by chunk, for as long as it has use for them.
    async fn decode(
        &self,
        reading: &mut Reading<S>,
        wanted: &Wanted<Purpose>,
        job: &mut Job<BufferOf<S>>,
        name: &str,
    ) -> Result<()> {
        let mut checks = self.checks();
        while reading.position < wanted.range.end && job.wants_more() {
            let start = reading.position;
            let count = (wanted.range.end - start).min(SCRATCH_BYTES);
            self.share.claim(start + count);
            let chunk = reading.chunk(count).await?;
            let chunk = chunk.ok_or_else(|| cut(wanted.range.start, start, wanted.range.end))?;
            let mut at = start;
            chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                checks.stored(at, bytes)?;
                at += bytes.len() as u64;
                job.push(bytes)
            })?;
            let length = chunk.length;
            self.arrived(start..start + length, Some(name));
        }
        Ok(())
    }
}
