//! The workers as the loader has them.

use super::crew::Crew;
use super::message::Request;
use super::worker::{TaskState, Worker};
use crate::loader::{Outcome, Pool, Task, TaskError, Work};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::Reflect;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// So much each worker must have to do, or fewer are started, or none: to start one takes as long as to decode some
/// MiB.
const LEAST_BYTES_EACH: u64 = if cfg!(weightstream_test_hooks) { 1 } else { 1 << 20 };

/// What is smaller stays on the page: messages take as long as the work.
const LEAST_TASK_BYTES: u64 = if cfg!(weightstream_test_hooks) { 1 } else { 32 << 10 };

/// These decode faster than ordinary networks bring bytes, and each takes some MiB.
const MAX_DEFAULT_COUNT: usize = 4;

/// The page's, and that of the browser's network process: where a computer has no more than these, workers made most
/// loads longer (on 2 cores, which other work kept busy, too).
const OTHERS_CORES: usize = 2;

/// How many workers a loader has where nobody says.
pub(crate) fn default_count() -> usize {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into()).unwrap_or_default();
    let cores = Reflect::get(&navigator, &"hardwareConcurrency".into()).ok().and_then(|cores| cores.as_f64());
    (cores.unwrap_or(1.0) as usize).saturating_sub(OTHERS_CORES).min(MAX_DEFAULT_COUNT)
}

/// At most so many of a page's workers, for one loader.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    crew: Rc<Crew>,
    count: usize,
    /// Whether there was enough to do for them.
    is_needed: Cell<bool>,
}

/// A task that a worker does.
#[derive(Debug)]
struct Running {
    crew: Rc<Crew>,
    count: usize,
    worker: Rc<Worker>,
    number: u32,
    state: Rc<TaskState>,
}

impl WorkerPool {
    /// `count` workers, none of which is started before there is something to do.
    pub(crate) fn new(count: usize) -> Self {
        WorkerPool { crew: Crew::of_this_page(), count, is_needed: Cell::new(false) }
    }

    /// Why workers that were needed did not do the work.
    pub(crate) fn error(&self) -> Option<String> {
        self.crew.failure().filter(|_| self.is_needed.get())
    }

    fn run(&self, task: &Task, bytes: u64, request: impl FnOnce(Task) -> Request) -> Option<Rc<Running>> {
        let range = &task.component.range;
        let worker = self.crew.least_busy(self.count).filter(|_| range.end - range.start >= LEAST_TASK_BYTES)?;
        let (number, state) = worker.begin(request(task.clone()), bytes);
        Some(Rc::new(Running { crew: Rc::clone(&self.crew), count: self.count, worker, number, state }))
    }
}

impl Pool<JsBuffer> for WorkerPool {
    fn expect(&self, bytes: u64) {
        let count = usize::try_from(bytes / LEAST_BYTES_EACH).unwrap_or(usize::MAX);
        let count = self.count.min(count);
        self.is_needed.set(self.is_needed.get() || count > 0);
        self.crew.start(count);
    }

    fn chunk(&self) -> Option<JsBuffer> {
        self.crew.chunk()
    }

    fn begin(&self, task: &Task, into: Option<JsBuffer>) -> Option<Rc<dyn Work<JsBuffer>>> {
        let into = into.map(|into| into.bytes().clone());
        let running = self.run(task, 0, |task| Request::Begin { task, into })?;
        Some(running)
    }

    fn takes_whole(&self, task: &Task) -> bool {
        task.is_heavy() && self.crew.least_busy(self.count).is_some()
    }

    fn digest(&self, task: &Task, buffer: JsBuffer) -> Result<Outcome<JsBuffer>, JsBuffer> {
        let (length, bytes) = (buffer.byte_length(), buffer.bytes().clone());
        if !buffer.is_ours() && buffer.share().is_none() {
            return Err(buffer);
        }
        let running = self.run(task, length, |task| Request::Digest { task, bytes }).ok_or(buffer)?;
        Ok(running.outcome())
    }
}

impl Work<JsBuffer> for Running {
    fn wants_more(&self) -> bool {
        !self.state.has_enough.get()
    }

    fn push(&self, chunk: JsBuffer, length: u64) -> LocalBoxFuture<'static, Result<bool, TaskError>> {
        let request = Request::Chunk { chunk: chunk.bytes().buffer(), length: length as u32 };
        self.worker.post(self.number, request, chunk.byte_length());
        let (crew, state, count) = (Rc::clone(&self.crew), Rc::clone(&self.state), self.count);
        let mut has_waited = false;
        let room = poll_fn(move |context| match state.trouble() {
            Some(trouble) => Poll::Ready(Err(trouble)),
            None if crew.is_full(count) => {
                has_waited = true;
                crew.wake_later(context)
            }
            None => Poll::Ready(Ok(has_waited)),
        });
        room.boxed_local()
    }

    fn finish(self: Rc<Self>) -> Outcome<JsBuffer> {
        self.worker.post(self.number, Request::Finish, 0);
        self.outcome()
    }
}

impl Running {
    fn outcome(self: Rc<Self>) -> Outcome<JsBuffer> {
        let outcome = poll_fn(move |context| match self.state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.state.wake(context.waker());
                Poll::Pending
            }
        });
        outcome.boxed_local()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.worker.forget(self.number);
        self.crew.eased();
    }
}
