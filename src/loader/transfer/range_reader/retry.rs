//! Repeats failed requests of a reader, and ends those that receive no data.

use super::RangeReader;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::transfer::file::ModelFile;
use crate::source::Source;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use std::pin::pin;
use std::rc::Rc;

impl<S: Source> RangeReader<S> {
    /// Waits before the next attempt, or returns the error if it is not retried.
    pub(super) async fn recover(&mut self, error: Error) -> Result<()> {
        self.remote = None;
        self.failures += 1;
        self.file.record_failure();
        match self.file.retry_delay_ms(&error, self.failures) {
            Some(delay_ms) => self.file.source.host().pause(delay_ms).await,
            None => return Err(error),
        }
        Ok(())
    }

    /// Runs `work` with a stall timeout. One timer serves many reads: it is restarted only when it fires, and the work
    /// fails if one wait lasted a whole interval.
    pub(super) async fn with_timeout<'a, T>(
        &mut self,
        work: impl FnOnce(Rc<ModelFile<S>>) -> LocalBoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let mut work = pin!(work(Rc::clone(&self.file)));
        let mut waited_whole_interval = false;
        loop {
            let file = Rc::clone(&self.file);
            let timer = self
                .watchdog
                .get_or_insert_with(|| async move { file.source.host().pause(file.stall_ms()).await }.boxed_local());
            match future::select(work.as_mut(), timer).await {
                Either::Left((outcome, _)) => return outcome,
                Either::Right(_) => self.watchdog = None,
            }
            if waited_whole_interval {
                let what = format!("no data arrived for {} seconds", self.file.stall_ms() / 1000);
                return Err(Error::new(ErrorKind::Network, what).transient());
            }
            waited_whole_interval = true;
        }
    }
}
