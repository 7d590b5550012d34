//! The page's side of one worker.

use super::message::{JobReply, Request};
use super::pool::WorkerPool;
use crate::browser::message::Message;
use crate::browser::timer::now_ms;
use crate::browser::worker as script;
use crate::pipeline::{Received, TaskError};
use crate::small_map::SmallMap;
use crate::source::js_buffer::JsBuffer;
use js_sys::{Reflect, Uint8Array};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;
use wasm_bindgen::prelude::*;

/// A worker that is not ready after this time is terminated.
const START_TIMEOUT_MS: f64 = 20_000.0;

/// A busy worker that sends no message for this long is terminated. No single request takes longer than digesting some
/// MiB. Tests do not wait for so long, but a busy machine must not exceed their limit either.
const RESPONSE_TIMEOUT_MS: f64 = if cfg!(weightstream_test_hooks) { 5_000.0 } else { 20_000.0 };

/// A worker and its tasks.
#[derive(Debug)]
pub(super) struct Worker {
    worker: script::Worker,
    is_ready: Cell<bool>,
    is_terminated: Cell<bool>,
    tasks: RefCell<SmallMap<u32, Rc<TaskState>>>,
    next_number: Cell<u32>,
    /// Bytes that were sent to the worker and that it has not processed yet.
    queued_bytes: Cell<u64>,
    /// Time of the last message from the worker, or of the first request after its queue was empty.
    last_activity_ms: Cell<f64>,
}

/// The state of one task.
#[derive(Debug, Default)]
pub(super) struct TaskState {
    pub(super) outcome: RefCell<Option<Result<Received<JsBuffer>, TaskError>>>,
    /// Whether the task needs no more bytes.
    pub(super) has_enough: Cell<bool>,
    /// Wakes the future that waits for the outcome.
    waker: RefCell<Option<Waker>>,
    /// Bytes of the task that were sent and are not processed yet.
    queued_bytes: Cell<u64>,
}

impl Worker {
    pub(super) fn start(pool: Weak<WorkerPool>) -> Result<Rc<Self>, JsValue> {
        let worker = script::start("jobs")?;
        let (tasks, queued_bytes, is_ready, is_terminated) = Default::default();
        let (next_number, last_activity_ms) = (Cell::new(1), Cell::new(now_ms()));
        let worker = Worker { worker, is_ready, is_terminated, tasks, next_number, queued_bytes, last_activity_ms };
        let worker = Rc::new(worker);
        worker.listen(pool);
        Ok(worker)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.get() && !self.is_terminated.get()
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.is_terminated.get()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_ready() && self.task_count() == 0
    }

    pub(super) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    pub(super) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.get()
    }

    /// Whether the worker is starting or busy and has sent no message for too long.
    pub(super) fn is_unresponsive(&self) -> bool {
        let silent_ms = now_ms() - self.last_activity_ms.get();
        match self.is_ready.get() {
            true => self.queued_bytes.get() > 0 && silent_ms > RESPONSE_TIMEOUT_MS,
            false => silent_ms > START_TIMEOUT_MS,
        }
    }

    /// Starts a task with its first request, which carries `bytes` bytes of data. Returns the task's number and state.
    pub(super) fn begin(&self, request: Request, bytes: u64) -> (u32, Rc<TaskState>) {
        let number = self.next_number.replace(self.next_number.get().wrapping_add(1).max(1));
        let state = Rc::new(TaskState::default());
        self.tasks.borrow_mut().add(number, Rc::clone(&state));
        self.post(number, request, bytes);
        (number, state)
    }

    /// Sends the next request of a task, which carries `bytes` bytes of data.
    pub(super) fn post(&self, number: u32, request: Request, bytes: u64) {
        let state = self.tasks.borrow().get(&number).cloned();
        let Some(state) = state else { return };
        if self.queued_bytes.get() == 0 {
            self.last_activity_ms.set(now_ms());
        }
        state.queued_bytes.set(state.queued_bytes.get() + bytes);
        self.queued_bytes.set(self.queued_bytes.get() + bytes);
        let (message, transferred) = Message { number, body: request }.encode();
        if self.is_terminated.get() || self.worker.post_message(&message, &transferred).is_err() {
            self.end(number, Err(TaskError::WorkerLost));
        }
    }

    /// Cancels a task whose outcome is no longer needed.
    pub(super) fn cancel(&self, number: u32) {
        if self.tasks.borrow().get(&number).is_some() {
            self.post(number, Request::Drop, 0);
            self.end(number, Err(TaskError::WorkerLost));
        }
    }

    /// Terminates the worker and ends all its tasks.
    pub(super) fn terminate(&self) {
        self.is_terminated.set(true);
        script::end(&self.worker);
        let next = || self.tasks.borrow().first_key().copied();
        while let Some(number) = next() {
            self.end(number, Err(TaskError::WorkerLost));
        }
    }

    fn end(&self, number: u32, outcome: Result<Received<JsBuffer>, TaskError>) {
        let state = self.tasks.borrow_mut().remove(&number);
        let Some(state) = state else { return };
        self.subtract_queued(&state, state.queued_bytes.get());
        state.outcome.replace(Some(outcome));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn subtract_queued(&self, state: &TaskState, bytes: u64) {
        state.queued_bytes.set(state.queued_bytes.get().saturating_sub(bytes));
        self.queued_bytes.set(self.queued_bytes.get().saturating_sub(bytes));
    }

    fn listen(self: &Rc<Self>, pool: Weak<WorkerPool>) {
        let (worker, weak_pool) = (Rc::downgrade(self), pool.clone());
        let on_message = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
            if let (Some(worker), Some(pool)) = (worker.upgrade(), weak_pool.upgrade())
                && let Some(Message { number, body }) = Message::decode(&event)
            {
                worker.handle_answer(number, body, &pool);
            }
        });
        self.worker.set_onmessage(&on_message.into_js_value());
        let worker = Rc::downgrade(self);
        let on_error = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
            prevent_default(&event); // the page continues without this worker
            if let (Some(worker), Some(pool)) = (worker.upgrade(), pool.upgrade()) {
                pool.remove_failed(&worker, script::failed(&event, worker.is_ready()));
            }
        });
        let on_error = on_error.into_js_value();
        self.worker.set_onerror(&on_error);
        self.worker.set_onmessageerror(&on_error);
    }

    fn handle_answer(&self, number: u32, answer: JobReply, pool: &WorkerPool) {
        self.last_activity_ms.set(now_ms());
        match answer {
            JobReply::Ready => self.is_ready.set(true),
            JobReply::Taken { chunk, wants_more } => {
                let state = self.tasks.borrow().get(&number).cloned();
                if let Some(state) = state {
                    self.subtract_queued(&state, u64::from(chunk.byte_length()));
                    state.has_enough.set(!wants_more);
                }
                pool.recycle(chunk);
            }
            JobReply::Done { buffer, verified, blocks } => {
                let buffer = buffer.map(|buffer| JsBuffer::owned(Uint8Array::new(&buffer)));
                self.end(number, Ok(Received { buffer, verified, blocks }));
            }
            JobReply::Failed(error) => self.end(number, Err(TaskError::Failed(error))),
        }
        pool.wake_waiting();
    }
}

impl TaskState {
    /// Registers `waker` to be woken when the task ends.
    pub(super) fn set_waker(&self, waker: &Waker) {
        self.waker.replace(Some(waker.clone()));
    }

    /// Why the task failed, if it has failed.
    pub(super) fn error(&self) -> Option<TaskError> {
        self.outcome.borrow().as_ref().and_then(|outcome| outcome.as_ref().err().cloned())
    }
}

/// Prevents the browser from reporting the error on the console.
fn prevent_default(event: &JsValue) {
    let function = Reflect::get(event, &"preventDefault".into()).and_then(|it| it.dyn_into::<js_sys::Function>());
    if let Ok(function) = function {
        function.call0(event).ok(); // an event's own method
    }
}
