//! A loader's access to the worker pool of its page.

use super::message::Request;
use super::pool::WorkerPool;
use super::webcrypto::WebCrypto;
use super::worker::{TaskState, Worker};
use crate::pipeline::{Outcome, Pool, StoredChunk, Task, TaskError, Work};
use crate::source::Buffer;
use crate::source::js_buffer::JsBuffer;
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::Reflect;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Minimum number of bytes to decode or digest for each worker. With fewer bytes, fewer workers are started, or none:
/// starting a worker takes as long as decoding some MiB.
const MIN_BYTES_PER_WORKER: u64 = if cfg!(weightstream_test_hooks) { 1 } else { 1 << 20 };

/// Smaller components are processed on the page's thread: sending messages takes as long as the work itself.
const MIN_TASK_BYTES: u64 = if cfg!(weightstream_test_hooks) { 1 } else { 32 << 10 };

/// Maximum number of workers by default. Four workers decode faster than ordinary networks deliver bytes, and each
/// worker takes some MiB of memory.
const MAX_DEFAULT_COUNT: usize = 4;

/// Cores reserved for the page and for the browser's network process.
const RESERVED_CORES: usize = 2;

/// The number of workers of a loader whose caller sets no number. On two cores, one worker takes a quarter off the time
/// of BLAKE3 and a tenth off that of LZ4; a second one makes no difference.
pub(crate) fn default_count() -> usize {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into()).unwrap_or_default();
    let cores = Reflect::get(&navigator, &"hardwareConcurrency".into()).ok().and_then(|cores| cores.as_f64());
    match cores.unwrap_or(1.0) as usize {
        0 | 1 => 0,
        cores => cores.saturating_sub(RESERVED_CORES).clamp(1, MAX_DEFAULT_COUNT),
    }
}

/// A loader's handle to the worker pool of its page.
#[derive(Debug)]
pub(crate) struct PoolHandle {
    pool: Rc<WorkerPool>,
    /// The maximum number of workers that the loader uses.
    count: usize,
    /// Computes SHA-256 if no worker is ready. The workers use it, too.
    crypto: Option<WebCrypto>,
    /// Whether any call had enough work to start a worker.
    is_needed: Cell<bool>,
}

/// A task that runs on a worker. Dropping it cancels the task.
#[derive(Debug)]
struct RunningTask {
    pool: Rc<WorkerPool>,
    count: usize,
    worker: Rc<Worker>,
    number: u32,
    state: Rc<TaskState>,
}

impl PoolHandle {
    /// A handle that uses at most `count` workers. Starts no worker yet.
    pub(crate) fn new(count: usize) -> Self {
        PoolHandle { pool: WorkerPool::shared(), count, crypto: WebCrypto::detect(), is_needed: Cell::new(false) }
    }

    /// Why workers were unavailable, if there was work for them.
    pub(crate) fn error(&self) -> Option<String> {
        self.pool.failure().filter(|_| self.is_needed.get())
    }

    /// The Web Crypto API, if it computes the digest of this component.
    fn crypto_for(&self, task: &Task) -> Option<&WebCrypto> {
        self.crypto.as_ref().filter(|crypto| crypto.takes_whole(task))
    }

    /// Starts a task on the least loaded worker; `None` if no worker is ready or the component is too small.
    fn start_task(&self, task: &Task, bytes: u64, request: impl FnOnce(Task) -> Request) -> Option<Rc<RunningTask>> {
        let range = &task.component.range;
        let worker = self.pool.least_busy(self.count).filter(|_| range.end - range.start >= MIN_TASK_BYTES)?;
        let (number, state) = worker.begin(request(task.clone()), bytes);
        Some(Rc::new(RunningTask { pool: Rc::clone(&self.pool), count: self.count, worker, number, state }))
    }
}

impl Pool<JsBuffer> for PoolHandle {
    fn expect(&self, bytes: u64) {
        let count = usize::try_from(bytes / MIN_BYTES_PER_WORKER).unwrap_or(usize::MAX);
        let count = self.count.min(count);
        self.is_needed.set(self.is_needed.get() || count > 0);
        self.pool.start_or_load(count);
    }

    fn chunk(&self) -> Option<JsBuffer> {
        self.pool.chunk()
    }

    fn begin(&self, task: &Task, into: Option<JsBuffer>) -> Option<Rc<dyn Work<JsBuffer>>> {
        if self.crypto_for(task).is_some() {
            return None;
        }
        let into = into.map(|into| into.bytes().clone());
        let running = self.start_task(task, 0, |task| Request::Begin { task, into })?;
        Some(running)
    }

    fn takes_whole(&self, task: &Task) -> bool {
        self.crypto_for(task).is_some() || (task.is_heavy() && self.pool.least_busy(self.count).is_some())
    }

    fn digest(&self, task: &Task, buffer: JsBuffer) -> Result<Outcome<JsBuffer>, JsBuffer> {
        let (length, bytes) = (buffer.byte_length(), buffer.bytes().clone());
        if buffer.is_ours() || buffer.share().is_some() {
            let running = self.start_task(task, length, |task| Request::Digest { task, bytes });
            if let Some(running) = running {
                return Ok(running.outcome());
            }
        }
        match self.crypto_for(task) {
            Some(crypto) => crypto.digest(task, buffer),
            None => Err(buffer),
        }
    }
}

impl Work<JsBuffer> for RunningTask {
    fn wants_more(&self) -> bool {
        !self.state.has_enough.get()
    }

    fn push(&self, chunk: StoredChunk<JsBuffer>) -> LocalBoxFuture<'static, Result<bool, TaskError>> {
        let StoredChunk { buffer, length, at } = chunk;
        let request = Request::Chunk { chunk: buffer.bytes().buffer(), length: length as u32, at };
        self.worker.post(self.number, request, buffer.byte_length());
        let (pool, state, count) = (Rc::clone(&self.pool), Rc::clone(&self.state), self.count);
        let mut has_waited = false;
        let ready = poll_fn(move |context| match state.error() {
            Some(error) => Poll::Ready(Err(error)),
            None if pool.is_full(count) => {
                has_waited = true;
                pool.register_waker(context)
            }
            None => Poll::Ready(Ok(has_waited)),
        });
        ready.boxed_local()
    }

    fn finish(self: Rc<Self>) -> Outcome<JsBuffer> {
        self.worker.post(self.number, Request::Finish, 0);
        self.outcome()
    }
}

impl RunningTask {
    fn outcome(self: Rc<Self>) -> Outcome<JsBuffer> {
        let outcome = poll_fn(move |context| match self.state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.state.set_waker(context.waker());
                Poll::Pending
            }
        });
        outcome.boxed_local()
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.worker.cancel(self.number);
        self.pool.wake_waiting();
    }
}
