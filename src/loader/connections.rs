//! The connections of one operation: one at first, and more while they pay.

use super::file::ModelFile;
use super::operation::{Operation, Purpose};
use super::run::RunReader;
use super::share::Share;
use super::{BufferOf, Loaded};
use crate::error::Result;
use crate::plan::Run;
use crate::source::Source;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Reads runs, over as many connections as pay. One that is added reads a run that waits, or else takes half of what is
/// left of the longest that is being read: no byte is asked for twice.
pub(crate) struct Connections<S: Source> {
    operation: Rc<Operation<S>>,
    waiting: VecDeque<(Rc<ModelFile<S>>, Run<Purpose>)>,
    shares: Vec<(Rc<ModelFile<S>>, Rc<Share>)>,
    readers: FuturesUnordered<LocalBoxFuture<'static, Step<S>>>,
    /// A run shorter than this is not worth a request.
    least_bytes: u64,
}

type Step<S> = (RunReader<S>, Result<Option<Loaded<BufferOf<S>>>>);

impl<S: Source> Connections<S> {
    pub(crate) fn new(
        operation: Rc<Operation<S>>,
        runs: impl Iterator<Item = (Rc<ModelFile<S>>, Run<Purpose>)>,
        least_bytes: u64,
    ) -> Self {
        let readers = FuturesUnordered::new();
        Connections { operation, waiting: runs.collect(), shares: Vec::new(), readers, least_bytes }
    }

    /// The next tensor that is complete; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Loaded<BufferOf<S>>>> {
        loop {
            while self.readers.len() < self.operation.pace.borrow().allowed() && self.add() {}
            let operation = Rc::clone(&self.operation);
            // Bytes arrive only while the readers are polled, so that nothing else needs to wake this.
            let growth =
                poll_fn(|_| if operation.pace.borrow_mut().has_grown() { Poll::Ready(()) } else { Poll::Pending });
            let (reader, outcome) = match future::select(self.readers.next(), growth).await {
                Either::Left((Some(step), _)) => step,
                Either::Left((None, _)) => return Ok(None),
                Either::Right(_) => continue,
            };
            match outcome? {
                Some(loaded) => {
                    self.readers.push(step(reader));
                    return Ok(Some(loaded));
                }
                None => self.shares.retain(|(_, share)| !reader.reads(share)),
            }
        }
    }

    /// Adds a connection, if there is something for it to read.
    fn add(&mut self) -> bool {
        let Some((file, run)) = self.waiting.pop_front().or_else(|| self.split()) else { return false };
        let reader = RunReader::new(Rc::clone(&self.operation), Rc::clone(&file), run);
        self.shares.extend(reader.share().map(|share| (file, share)));
        self.readers.push(step(reader));
        true
    }

    fn split(&self) -> Option<(Rc<ModelFile<S>>, Run<Purpose>)> {
        let least_bytes = self.operation.pace.borrow().window_bytes()?.max(self.least_bytes);
        let longest = self.shares.iter().max_by_key(|(_, share)| share.left_bytes());
        let (file, share) = longest.filter(|(file, _)| file.can_be_split())?;
        Some((Rc::clone(file), share.split(&self.operation, least_bytes)?))
    }
}

fn step<S: Source>(mut reader: RunReader<S>) -> LocalBoxFuture<'static, Step<S>> {
    async move {
        let outcome = reader.next().await;
        (reader, outcome)
    }
    .boxed_local()
}
