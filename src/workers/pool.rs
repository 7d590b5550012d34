//! The workers of a page. They are started when there is work and terminated after an idle period.

use super::worker::Worker;
#[cfg(feature = "js")]
use crate::browser;
use crate::browser::timer::{now_ms, pause};
use crate::browser::worker as script;
#[cfg(feature = "js")]
use crate::deferred::{self, Code};
use crate::loader::SCRATCH_BYTES;
use crate::source::js_buffer::JsBuffer;
use js_sys::{ArrayBuffer, Uint8Array};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use wasm_bindgen_futures::spawn_local;

/// Maximum number of bytes queued per worker, on average: enough for the reader to pass the next tensor to another
/// worker, and little memory for a tab.
const MAX_QUEUED_BYTES_PER_WORKER: u64 = 4 << 20;

/// Idle workers are terminated after this time: each takes some MiB of memory.
const IDLE_TIMEOUT_MS: f64 = 10_000.0;

/// Interval between checks for idle and unresponsive workers.
const CHECK_INTERVAL_MS: u64 = 2_000;

thread_local! {
    static POOL: RefCell<Option<Rc<WorkerPool>>> = const { RefCell::new(None) };
}

/// The workers of a page, shared by all its loaders.
#[derive(Debug)]
pub(super) struct WorkerPool {
    workers: RefCell<Vec<Rc<Worker>>>,
    /// Why workers are unavailable: the first failure.
    failure: RefCell<Option<String>>,
    /// Buffers for reuse by later chunks: allocating a buffer costs ten times as much as copying into it.
    free_buffers: RefCell<Vec<ArrayBuffer>>,
    wakers: RefCell<Vec<Waker>>,
    is_monitored: Cell<bool>,
    last_used_ms: Cell<f64>,
}

impl WorkerPool {
    /// The pool of this page, created on first use.
    pub(super) fn shared() -> Rc<Self> {
        if let Some(pool) = POOL.with_borrow(Option::clone) {
            return pool;
        }
        let (workers, failure, free_buffers, wakers, is_monitored) = Default::default();
        let last_used_ms = Cell::new(now_ms());
        let pool = Rc::new(WorkerPool { workers, failure, free_buffers, wakers, is_monitored, last_used_ms });
        POOL.set(Some(Rc::clone(&pool)));
        pool
    }

    /// Starts workers until there are `count`, if they are available. Returns before the workers are ready.
    pub(super) fn start(self: &Rc<Self>, count: usize) {
        self.last_used_ms.set(now_ms());
        while self.workers.borrow().len() < count && self.failure.borrow().is_none() {
            match Worker::start(Rc::downgrade(self)) {
                Ok(worker) => self.workers.borrow_mut().push(worker),
                Err(exception) => self.set_failure(script::failed_to_start(&exception)),
            }
        }
        self.start_monitor();
    }

    /// Like [`WorkerPool::start`], once the code of workers is loaded. Without a worker, no other of it is called.
    pub(super) fn start_or_load(self: &Rc<Self>, count: usize) {
        #[cfg(feature = "js")]
        if !deferred::is_loaded(Code::Workers) {
            if count > 0 && self.failure.borrow().is_none() {
                let pool = Rc::clone(self);
                spawn_local(async move {
                    match browser::deferred::load(Code::Workers).await {
                        Ok(()) => pool.start(count),
                        Err(error) => pool.set_failure(error.to_string()),
                    }
                });
            }
            return;
        }
        self.start(count);
    }

    /// Why workers are unavailable, if they are.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    fn set_failure(&self, failure: String) {
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// The least loaded of the first `count` workers; `None` if none of them is ready.
    pub(super) fn least_busy(&self, count: usize) -> Option<Rc<Worker>> {
        self.last_used_ms.set(now_ms());
        let workers = self.workers.borrow();
        let ready = workers.iter().take(count).filter(|worker| worker.is_ready());
        ready.min_by_key(|worker| (worker.queued_bytes(), worker.task_count())).cloned()
    }

    /// Whether the queues are full, so that the caller should wait before it sends more chunks.
    pub(super) fn is_full(&self, count: usize) -> bool {
        let workers = self.workers.borrow();
        let queued_bytes: u64 = workers.iter().map(|worker| worker.queued_bytes()).sum();
        queued_bytes > MAX_QUEUED_BYTES_PER_WORKER * count as u64
    }

    /// Registers the task to be woken when the workers have finished some of their work.
    pub(super) fn register_waker<T>(&self, context: &Context<'_>) -> Poll<T> {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// A free buffer for a chunk.
    pub(super) fn chunk(&self) -> Option<JsBuffer> {
        let chunk = self.free_buffers.borrow_mut().pop()?;
        Some(JsBuffer::owned(Uint8Array::new(&chunk)))
    }

    /// Checks the workers at regular intervals until none is left.
    fn start_monitor(self: &Rc<Self>) {
        if self.workers.borrow().is_empty() || self.is_monitored.replace(true) {
            return;
        }
        let pool = Rc::clone(self);
        spawn_local(async move {
            while !pool.workers.borrow().is_empty() {
                pause(CHECK_INTERVAL_MS).await;
                pool.check_workers();
            }
            pool.is_monitored.set(false);
        });
    }

    /// Terminates unresponsive workers, and all workers once they have been idle for long enough.
    fn check_workers(&self) {
        let is_timed_out = now_ms() - self.last_used_ms.get() > IDLE_TIMEOUT_MS;
        let to_terminate: Vec<_> = {
            let workers = self.workers.borrow();
            let is_idle = is_timed_out && workers.iter().all(|worker| worker.is_idle());
            workers.iter().filter(|worker| is_idle || worker.is_unresponsive()).cloned().collect()
        };
        for worker in to_terminate {
            if worker.is_unresponsive() {
                self.remove_failed(&worker, "a worker does not respond".to_owned());
            } else {
                worker.terminate();
            }
        }
        self.workers.borrow_mut().retain(|worker| !worker.is_terminated());
        if self.workers.borrow().is_empty() {
            self.free_buffers.borrow_mut().clear();
        }
    }

    /// Keeps the buffer of a processed chunk for reuse.
    pub(super) fn recycle(&self, chunk: ArrayBuffer) {
        if u64::from(chunk.byte_length()) == SCRATCH_BYTES {
            self.free_buffers.borrow_mut().push(chunk);
        }
    }

    /// Wakes the tasks that wait for the workers to finish some of their work.
    pub(super) fn wake_waiting(&self) {
        self.last_used_ms.set(now_ms());
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    /// Removes a worker that failed or could not be started. It is not replaced, because a new worker would probably
    /// fail too.
    pub(super) fn remove_failed(&self, worker: &Worker, failure: String) {
        self.set_failure(failure);
        worker.terminate();
        self.workers.borrow_mut().retain(|worker| !worker.is_terminated());
        self.wake_waiting();
    }
}
