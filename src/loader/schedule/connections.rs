//! The connections of one operation: one at first, and more while they increase the throughput.

use crate::error::Result;
use crate::loader::Loaded;
use crate::loader::schedule::batch::Batch;
use crate::loader::schedule::run::{ComponentFuture, RunReader};
use crate::loader::schedule::share::Share;
use crate::loader::schedule::target::Target;
use crate::loader::schedule::tied::TiedLoad;
use crate::loader::transfer::file::ModelFile;
use crate::pipeline::Received;
use crate::plan::Run;
use crate::source::{BufferOf, ModelSource};
use futures::future::{FutureExt, LocalBoxFuture};
use futures::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Reads runs over several connections. A connection that is added reads a waiting run. If none waits, it takes over
/// half of what is left of the run with the most unread bytes. No byte is requested twice.
pub(crate) struct Connections<S: ModelSource> {
    batch: Rc<Batch<S>>,
    waiting: VecDeque<(Rc<ModelFile<S>>, Run<Target>)>,
    shares: Vec<(Rc<ModelFile<S>>, Rc<Share>)>,
    readers: FuturesUnordered<LocalBoxFuture<'static, Step<S>>>,
    /// Components whose stored bytes have all arrived, in order of arrival.
    arrivals: FuturesOrdered<ComponentFuture<BufferOf<S>>>,
    /// What is left of the last tensor for those that are tied to it.
    tied: Option<TiedLoad<BufferOf<S>>>,
    /// Minimum length of a run that is split off: shorter runs are not worth a request.
    min_bytes: u64,
}

type Step<S> = (Box<RunReader<S>>, Result<Option<ComponentFuture<BufferOf<S>>>>);

enum Event<S: ModelSource> {
    Arrived(Result<(usize, usize, Received<BufferOf<S>>)>),
    Read(Step<S>),
    /// More connections are allowed.
    Grown,
    Ended,
}

impl<S: ModelSource> Connections<S> {
    pub(crate) fn new(
        batch: Rc<Batch<S>>,
        runs: impl Iterator<Item = (Rc<ModelFile<S>>, Run<Target>)>,
        min_bytes: u64,
    ) -> Self {
        let (shares, readers, arrivals, tied) = Default::default();
        Connections { batch, waiting: runs.collect(), shares, readers, arrivals, tied, min_bytes }
    }

    /// The next complete tensor; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Loaded<BufferOf<S>>>> {
        if let Some(tied) = self.tied.take() {
            return self.take(tied).map(Some);
        }
        loop {
            while self.readers.len() < self.batch.concurrency.borrow().allowed() && self.add() {}
            match poll_fn(|context| self.poll_event(context)).await {
                Event::Arrived(arrived) => {
                    let (slot, component, received) = arrived?;
                    if let Some(loaded) = self.batch.deliver(slot, component, received)? {
                        return self.take(self.batch.tied(slot, loaded)?).map(Some);
                    }
                }
                Event::Read((reader, outcome)) => match outcome? {
                    Some(arrival) => {
                        self.arrivals.push_back(arrival);
                        self.readers.push(step(reader));
                    }
                    None => self.shares.retain(|(_, share)| !reader.reads(share)),
                },
                Event::Grown => {}
                Event::Ended => return Ok(None),
            }
        }
    }

    fn take(&mut self, tied: TiedLoad<BufferOf<S>>) -> Result<Loaded<BufferOf<S>>> {
        let (loaded, rest) = tied.take()?;
        if rest.is_some() {
            self.batch.count_copy(&loaded);
        }
        self.tied = rest;
        Ok(loaded)
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event<S>> {
        if let Poll::Ready(Some(arrived)) = self.arrivals.poll_next_unpin(context) {
            return Poll::Ready(Event::Arrived(arrived));
        }
        if let Poll::Ready(Some(step)) = self.readers.poll_next_unpin(context) {
            return Poll::Ready(Event::Read(step));
        }
        // The limit is raised only while the readers are polled, so no other waker is needed.
        if self.batch.concurrency.borrow_mut().has_grown() {
            return Poll::Ready(Event::Grown);
        }
        if self.readers.is_empty() && self.arrivals.is_empty() { Poll::Ready(Event::Ended) } else { Poll::Pending }
    }

    /// Adds a connection. Returns false if there is nothing for it to read.
    fn add(&mut self) -> bool {
        let whole = self.waiting.pop_front().map(|(file, run)| (file, run, false));
        let Some((file, run, is_cut)) = whole.or_else(|| self.split()) else { return false };
        let reader = RunReader::new(Rc::clone(&self.batch), Rc::clone(&file), run, is_cut);
        self.shares.extend(reader.share().map(|share| (file, share)));
        self.readers.push(step(Box::new(reader)));
        true
    }

    /// Takes over half of a run. Returns it, and whether its first component was cut.
    fn split(&self) -> Option<(Rc<ModelFile<S>>, Run<Target>, bool)> {
        let min_bytes = self.batch.concurrency.borrow().window_bytes()?.max(self.min_bytes);
        let longest = self.shares.iter().max_by_key(|(_, share)| share.left_bytes());
        let (file, share) = longest.filter(|(file, share)| self.batch.can_be_split(file, share.shard))?;
        let is_divisible = |target| file.proves_version() && self.batch.is_divisible(target);
        let is_cut = Cell::new(false);
        let run = share.split(min_bytes, is_divisible, |target| {
            is_cut.set(true);
            self.batch.add_part(target);
        })?;
        Some((Rc::clone(file), run, is_cut.get()))
    }
}

fn step<S: ModelSource>(mut reader: Box<RunReader<S>>) -> LocalBoxFuture<'static, Step<S>> {
    async move {
        let outcome = reader.next().await;
        (reader, outcome)
    }
    .boxed_local()
}
