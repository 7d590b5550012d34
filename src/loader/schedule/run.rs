//! One long read for many tensors.

use crate::codec::pages::PageChecker;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::schedule::batch::{Batch, MemoryWait};
use crate::loader::schedule::checks::Checks;
use crate::loader::schedule::share::Share;
use crate::loader::schedule::target::Target;
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::priority::PrefetchPriority;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::truncated::truncated_error;
use crate::pipeline::Received;
use crate::plan::{Run, WantedRange};
use crate::progress::BytesArrived;
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::future::LocalBoxFuture;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Reads a [`Run`] and yields each component once its last byte has arrived.
pub(crate) struct RunReader<S: ModelSource> {
    pub(crate) batch: Rc<Batch<S>>,
    pub(crate) file: Rc<ModelFile<S>>,
    pub(crate) share: Rc<Share>,
    prefetch_priority: Option<Rc<PrefetchPriority>>,
    reading: Option<RangeReader<S>>,
    connection: Option<usize>,
    /// Check the pages that contain the components.
    pages: RefCell<Vec<PageChecker>>,
    /// Components whose last page has not arrived yet, and the components after them.
    held: VecDeque<Held<BufferOf<S>>>,
}

/// A component whose stored bytes have all arrived: the indices of its tensor and of the component, and the result.
pub(crate) type ComponentFuture<B> = LocalBoxFuture<'static, Result<(usize, usize, Received<B>)>>;

struct Held<B> {
    arrival: ComponentFuture<B>,
    /// The pages that must be checked before the component is delivered.
    pages: Option<Range<u64>>,
}

impl<S: ModelSource> RunReader<S> {
    /// `is_cut` says that another connection reads the start of the first component.
    pub(crate) fn new(batch: Rc<Batch<S>>, file: Rc<ModelFile<S>>, run: Run<Target>, is_cut: bool) -> Self {
        let mut pages: Vec<PageChecker> = Vec::new();
        for wanted in &run.wanted {
            let Target { slot, component } = wanted.target;
            if let Some(known) = batch.pages_of(slot, component).and_then(|table| file.known_pages(&table))
                && !pages.iter().any(|checker| Arc::ptr_eq(checker.pages(), &known))
            {
                pages.push(PageChecker::new(known));
            }
        }
        let read_whole = run.wanted.iter().filter(|wanted| batch.is_read_whole(wanted));
        file.expect_buffers(read_whole.map(|wanted| wanted.range.clone()).collect());
        let (reading, connection, held) = (None, None, VecDeque::new());
        let share = Rc::new(Share::new(run, is_cut));
        let prefetching = batch.call.prefetching.clone();
        let prefetch_priority = prefetching.map(|prefetching| Rc::new(PrefetchPriority::new(prefetching)));
        let pages = RefCell::new(pages);
        RunReader { batch, file, share, prefetch_priority, reading, connection, pages, held }
    }

    /// The share that other connections may take a part of; `None` if page checks need the bytes in order.
    pub(crate) fn share(&self) -> Option<Rc<Share>> {
        self.pages.borrow().is_empty().then(|| Rc::clone(&self.share))
    }

    /// Whether this reader reads the share.
    pub(crate) fn reads(&self, share: &Rc<Share>) -> bool {
        Rc::ptr_eq(&self.share, share)
    }

    /// Returns the next component whose bytes have all arrived; `None` at the end of the run.
    pub(crate) async fn next(&mut self) -> Result<Option<ComponentFuture<BufferOf<S>>>> {
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => {
                self.connection = Some(self.batch.concurrency.borrow_mut().begins(self.file.source.host().now_ms()));
                self.start(self.share.range())
            }
        };
        let mut has_skipped = false;
        loop {
            if let Some(checked) = self.release() {
                self.reading = Some(reading);
                return Ok(Some(checked));
            }
            let Some(wanted) = self.share.begin_next() else { break };
            let slot = wanted.target.slot;
            // Components that wait for their pages have memory until these are read, which come later in the file.
            let wait = if self.held.is_empty() { MemoryWait::UntilFree } else { MemoryWait::Never };
            self.batch.reserve_memory(slot, wait).await?;
            if self.batch.is_cancelled(slot) {
                has_skipped = true;
                continue;
            }
            if let Some(prefetch_priority) = &self.prefetch_priority {
                prefetch_priority.set_tensor(&self.batch.tensor(slot)?.name);
            }
            if std::mem::take(&mut has_skipped) {
                reading = self.leap(reading, wanted.read_range.start);
            }
            self.discard_to(&mut reading, wanted.range.start).await?;
            if let Some(arrival) = self.receive(&mut reading, &wanted).await? {
                let pages = (wanted.read_range != wanted.range).then_some(wanted.read_range);
                self.held.push_back(Held { arrival, pages });
            }
        }
        // The last page of a component ends after the component, and a file may go on after its last tensor.
        let pages_end = self.held.iter().filter_map(|held| Some(held.pages.as_ref()?.end)).max();
        let end = if self.share.reads_all() { Some(self.share.end().get()) } else { pages_end };
        self.discard_to(&mut reading, end.unwrap_or(0)).await?;
        match self.release() {
            Some(checked) => {
                self.reading = Some(reading);
                Ok(Some(checked))
            }
            None if self.held.is_empty() => {
                self.file.finish(reading);
                Ok(None)
            }
            None => Err(Error::new(ErrorKind::Internal, "a page was read but not checked")),
        }
    }

    pub(crate) fn start(&self, range: Range<u64>) -> RangeReader<S> {
        let mut reading = self.file.start(range, self.share.end());
        reading.prefetch_priority.clone_from(&self.prefetch_priority);
        reading.is_cut = self.share.is_cut();
        reading
    }

    /// Continues at `start`: with a new request if `start` is far from the current position.
    fn leap(&self, reading: RangeReader<S>, start: u64) -> RangeReader<S> {
        let is_near = start.saturating_sub(reading.position) <= self.batch.call.coalesce_gap_bytes;
        if is_near || self.file.comes_from_start() {
            return reading;
        }
        self.start(start..self.share.end().get())
    }

    /// Returns the first waiting component if its pages have been checked.
    fn release(&mut self) -> Option<ComponentFuture<BufferOf<S>>> {
        let pages = self.held.front()?.pages.as_ref();
        if pages.is_some_and(|pages| !self.pages.borrow().iter().any(|checker| checker.has_checked(pages))) {
            return None;
        }
        self.held.pop_front().map(|held| held.arrival)
    }

    async fn receive(
        &self,
        reading: &mut RangeReader<S>,
        wanted: &WantedRange<Target>,
    ) -> Result<Option<ComponentFuture<BufferOf<S>>>> {
        let Target { slot, component } = wanted.target;
        let tensor = self.batch.tensor(slot)?;
        let part = tensor.components.get(component);
        if let Some(part) = part {
            reading.check_length(&part.range).await.map_err(|e| self.place(e.in_tensor(&tensor.name)))?;
        }
        let received = match part {
            Some(part) => match self.batch.begin_large(slot, component, part) {
                Ok(true) => self.large(reading, wanted, part, &tensor.name).await,
                Ok(false) => self.component(reading, wanted, part, &tensor.name).await.map(Some),
                Err(error) => Err(error),
            },
            None => Err(Error::new(ErrorKind::Internal, "a component that is not there was planned")),
        };
        // `None` for a large component if another connection reads the rest of it.
        received.map_err(|e| self.place(e.in_tensor(&tensor.name)))
    }

    /// Reads up to `end` and discards the bytes, except for checksums over them. Keeps the end of the file, which may
    /// contain its checksum.
    async fn discard_to(&self, reading: &mut RangeReader<S>, end: u64) -> Result<()> {
        self.try_discard_to(reading, end).await.map_err(|e| self.place(e))
    }

    async fn try_discard_to(&self, reading: &mut RangeReader<S>, end: u64) -> Result<()> {
        let start = reading.position;
        let is_tail = self.share.reads_all() && self.file.length() == Some(end);
        while reading.position < end {
            let at = reading.position;
            let count = (end - at).min(SCRATCH_BYTES);
            self.share.claim(at + count);
            let chunk = self.next_chunk(reading, count).await?.ok_or_else(|| truncated_error(start, at, end))?;
            let mut checks = self.checks();
            if is_tail || checks.are_needed(&(at..at + chunk.length)) {
                let mut at = at;
                chunk.buffer.inspect(0..chunk.length, &mut |bytes| {
                    checks.stored(at, bytes)?;
                    if is_tail && at >= end.saturating_sub(SCRATCH_BYTES) {
                        self.file.remember(at, bytes);
                    }
                    at += bytes.len() as u64;
                    Ok(())
                })?;
            }
            let length = chunk.length;
            self.arrived(at..at + length, None);
        }
        Ok(())
    }

    pub(crate) fn checks(&self) -> Checks<'_> {
        let whole = self.batch.call.whole.as_deref().map(|checks| (checks, self.share.shard));
        Checks::new(whole, &self.pages)
    }

    pub(crate) fn arrived(&self, range: Range<u64>, tensor: Option<&str>) {
        let (shard, connection, now_ms) =
            (self.share.shard, self.connection.unwrap_or(0), self.file.source.host().now_ms());
        if self.prefetch_priority.as_ref().is_some_and(|prefetch_priority| prefetch_priority.has_waited()) {
            self.batch.concurrency.borrow_mut().restart();
        }
        self.batch.arrived(BytesArrived { shard, range, connection, tensor }, now_ms);
    }

    pub(crate) fn place(&self, error: Error) -> Error {
        self.file.reject_if_corrupt(error)
    }
}

impl<S: ModelSource> Drop for RunReader<S> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection {
            self.batch.concurrency.borrow_mut().ends(connection);
        }
    }
}
