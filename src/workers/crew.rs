//! All workers of a page: started when there is something to do, and ended when there was nothing for a while.

use super::worker::Worker;
use crate::browser::timer::{now_ms, pause};
use crate::browser::worker as script;
use crate::loader::SCRATCH_BYTES;
use crate::source::js_buffer::JsBuffer;
use js_sys::{ArrayBuffer, Uint8Array};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use wasm_bindgen_futures::spawn_local;

/// So many bytes may wait for each worker: enough for the reader to give the next tensor to the next one, and little to
/// a tab.
const MAX_WAITING_BYTES: u64 = 4 << 20;

/// Workers that had nothing to do for so long are ended: each takes some MiB.
const IDLE_MS: f64 = 10_000.0;

/// How often somebody looks whether workers are idle, or stuck.
const WATCH_MS: u64 = 2_000;

thread_local! {
    static CREW: RefCell<Option<Rc<Crew>>> = const { RefCell::new(None) };
}

/// The workers of a page, whichever loader they work for.
#[derive(Debug)]
pub(super) struct Crew {
    workers: RefCell<Vec<Rc<Worker>>>,
    /// Why workers cannot be had, once that is known.
    failure: RefCell<Option<String>>,
    /// Buffers for chunks: fresh memory costs ten times as much as a copy into it.
    spare: RefCell<Vec<ArrayBuffer>>,
    waiting: RefCell<Vec<Waker>>,
    is_watched: Cell<bool>,
    used_ms: Cell<f64>,
}

impl Crew {
    pub(super) fn of_this_page() -> Rc<Self> {
        if let Some(crew) = CREW.with_borrow(Option::clone) {
            return crew;
        }
        let (workers, failure, spare, waiting, is_watched) = Default::default();
        let used_ms = Cell::new(now_ms());
        let crew = Rc::new(Crew { workers, failure, spare, waiting, is_watched, used_ms });
        CREW.set(Some(Rc::clone(&crew)));
        crew
    }

    /// Has `count` workers started, if they can be. They are not ready yet.
    pub(super) fn start(self: &Rc<Self>, count: usize) {
        self.used_ms.set(now_ms());
        while self.workers.borrow().len() < count && self.failure.borrow().is_none() {
            match Worker::start(Rc::downgrade(self)) {
                Ok(worker) => self.workers.borrow_mut().push(worker),
                Err(exception) => self.note(script::failed_to_start(&exception)), // the page does without
            }
        }
        self.watch();
    }

    /// Why workers cannot be had, if so.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    fn note(&self, failure: String) {
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// Of the first `count` workers the one with the least to do. `None` where none is ready.
    pub(super) fn least_busy(&self, count: usize) -> Option<Rc<Worker>> {
        self.used_ms.set(now_ms());
        let workers = self.workers.borrow();
        let ready = workers.iter().take(count).filter(|worker| worker.is_ready());
        ready.min_by_key(|worker| (worker.waiting_bytes(), worker.task_count())).cloned()
    }

    /// Whether the workers have enough to do.
    pub(super) fn is_full(&self, count: usize) -> bool {
        let workers = self.workers.borrow();
        let waiting: u64 = workers.iter().map(|worker| worker.waiting_bytes()).sum();
        waiting > MAX_WAITING_BYTES * count as u64
    }

    /// Has the task woken when the workers have less to do.
    pub(super) fn wake_later<T>(&self, context: &Context<'_>) -> Poll<T> {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// A buffer for a chunk.
    pub(super) fn chunk(&self) -> Option<JsBuffer> {
        let chunk = self.spare.borrow_mut().pop()?;
        Some(JsBuffer::owned(Uint8Array::new(&chunk)))
    }

    /// Looks after the workers for as long as there are some.
    fn watch(self: &Rc<Self>) {
        if self.workers.borrow().is_empty() || self.is_watched.replace(true) {
            return;
        }
        let crew = Rc::clone(self);
        spawn_local(async move {
            while !crew.workers.borrow().is_empty() {
                pause(WATCH_MS).await;
                crew.look();
            }
            crew.is_watched.set(false);
        });
    }

    fn look(&self) {
        let is_over = now_ms() - self.used_ms.get() > IDLE_MS;
        let ended: Vec<_> = {
            let workers = self.workers.borrow();
            let is_idle = is_over && workers.iter().all(|worker| worker.is_idle());
            workers.iter().filter(|worker| is_idle || worker.is_stuck()).cloned().collect()
        };
        for worker in ended {
            if worker.is_stuck() {
                self.lose(&worker, "a worker does not answer".to_owned());
            } else {
                worker.lose();
            }
        }
        self.workers.borrow_mut().retain(|worker| !worker.is_lost());
        if self.workers.borrow().is_empty() {
            self.spare.borrow_mut().clear();
        }
    }

    /// A chunk was done with.
    pub(super) fn taken(&self, chunk: ArrayBuffer) {
        if u64::from(chunk.byte_length()) == SCRATCH_BYTES {
            self.spare.borrow_mut().push(chunk);
        }
    }

    /// There is less to do.
    pub(super) fn eased(&self) {
        self.used_ms.set(now_ms());
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// The worker failed, or could not be started. What broke once may break again, so that no other takes its place.
    pub(super) fn lose(&self, worker: &Worker, failure: String) {
        self.note(failure);
        worker.lose();
        self.workers.borrow_mut().retain(|worker| !worker.is_lost());
        self.eased();
    }
}
