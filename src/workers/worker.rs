//! One worker, as the page has it.

use super::crew::Crew;
use super::message::{Answer, Request};
use crate::browser::timer::now_ms;
use crate::browser::worker as script;
use crate::loader::{Received, TaskError};
use crate::source::js_buffer::JsBuffer;
use js_sys::{Array, Reflect, Uint8Array};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::task::Waker;
use wasm_bindgen::prelude::*;

/// A worker that is silent for so long, although it has something to do, is given up. It has nothing to do that takes
/// longer than to digest some MiB.
const PATIENCE_MS: f64 = if cfg!(weightstream_test_hooks) { 3_000.0 } else { 20_000.0 };

/// A worker and what it has to do.
#[derive(Debug)]
pub(super) struct Worker {
    worker: script::Worker,
    is_ready: Cell<bool>,
    is_lost: Cell<bool>,
    tasks: RefCell<HashMap<u32, Rc<TaskState>>>,
    next_number: Cell<u32>,
    /// Bytes that it was given and is not done with.
    waiting_bytes: Cell<u64>,
    /// When it last told something, or was given something after it had nothing to do.
    heard_ms: Cell<f64>,
}

/// What is known of one task.
#[derive(Debug, Default)]
pub(super) struct TaskState {
    pub(super) outcome: RefCell<Option<Result<Received<JsBuffer>, TaskError>>>,
    /// Whether there is no use for more bytes.
    pub(super) has_enough: Cell<bool>,
    /// Whoever waits for the outcome.
    waker: RefCell<Option<Waker>>,
    /// Bytes of it that are not done with.
    waiting_bytes: Cell<u64>,
}

impl Worker {
    pub(super) fn start(crew: Weak<Crew>) -> Result<Rc<Self>, JsValue> {
        let worker = script::start("jobs")?;
        let (tasks, waiting_bytes, is_ready, is_lost) = Default::default();
        let (next_number, heard_ms) = (Cell::new(1), Cell::new(now_ms()));
        let worker = Rc::new(Worker { worker, is_ready, is_lost, tasks, next_number, waiting_bytes, heard_ms });
        worker.listen(crew);
        Ok(worker)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.get() && !self.is_lost.get()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_ready() && self.tasks.borrow().is_empty()
    }

    pub(super) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.get()
    }

    /// Whether it has something to do, or to start, and tells nothing.
    pub(super) fn is_stuck(&self) -> bool {
        let is_busy = !self.is_ready.get() || self.waiting_bytes.get() > 0;
        is_busy && now_ms() - self.heard_ms.get() > PATIENCE_MS
    }

    /// A new task, which begins with this request. It keeps the worker waiting for so many bytes.
    pub(super) fn begin(&self, request: Request, bytes: u64) -> (u32, Rc<TaskState>) {
        let number = self.next_number.replace(self.next_number.get().wrapping_add(1).max(1));
        let state = Rc::new(TaskState::default());
        self.tasks.borrow_mut().insert(number, Rc::clone(&state));
        self.post(number, request, bytes);
        (number, state)
    }

    /// The next request of a task.
    pub(super) fn post(&self, number: u32, request: Request, bytes: u64) {
        let state = self.tasks.borrow().get(&number).cloned();
        let Some(state) = state else { return };
        if self.waiting_bytes.get() == 0 {
            self.heard_ms.set(now_ms());
        }
        state.waiting_bytes.set(state.waiting_bytes.get() + bytes);
        self.waiting_bytes.set(self.waiting_bytes.get() + bytes);
        let (message, transferred) = request.write(number);
        if self.is_lost.get() || self.worker.post_message(&message, &transferred).is_err() {
            self.end(number, Err(TaskError::WorkerLost));
        }
    }

    /// Nobody wants the outcome of a task any more.
    pub(super) fn forget(&self, number: u32) {
        if self.tasks.borrow().contains_key(&number) {
            self.post(number, Request::Drop, 0);
            self.end(number, Err(TaskError::WorkerLost));
        }
    }

    /// Ends the worker, with all its tasks.
    pub(super) fn lose(&self) {
        self.is_lost.set(true);
        script::end(&self.worker);
        let numbers: Vec<_> = self.tasks.borrow().keys().copied().collect();
        numbers.into_iter().for_each(|number| self.end(number, Err(TaskError::WorkerLost)));
    }

    fn end(&self, number: u32, outcome: Result<Received<JsBuffer>, TaskError>) {
        let state = self.tasks.borrow_mut().remove(&number);
        let Some(state) = state else { return };
        self.ease(&state, state.waiting_bytes.get());
        state.outcome.replace(Some(outcome));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn ease(&self, state: &TaskState, bytes: u64) {
        state.waiting_bytes.set(state.waiting_bytes.get().saturating_sub(bytes));
        self.waiting_bytes.set(self.waiting_bytes.get().saturating_sub(bytes));
    }

    fn listen(self: &Rc<Self>, crew: Weak<Crew>) {
        let (worker, hearing) = (Rc::downgrade(self), crew.clone());
        let told = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
            let message: Array = Reflect::get(&event, &"data".into()).unwrap_or_default().unchecked_into();
            if let (Some(worker), Some(crew)) = (worker.upgrade(), hearing.upgrade())
                && let Some((number, answer)) = Answer::read(&message)
            {
                worker.hear(number, answer, &crew);
            }
        });
        self.worker.set_onmessage(&told.into_js_value());
        let worker = Rc::downgrade(self);
        let failed = Closure::<dyn FnMut(JsValue)>::new(move |event: JsValue| {
            prevent_default(&event); // it is no fault of the page, which goes on without
            if let (Some(worker), Some(crew)) = (worker.upgrade(), crew.upgrade()) {
                crew.lose(&worker, script::failed(&event, worker.is_ready()));
            }
        });
        let failed = failed.into_js_value();
        self.worker.set_onerror(&failed);
        self.worker.set_onmessageerror(&failed);
    }

    fn hear(&self, number: u32, answer: Answer, crew: &Crew) {
        self.heard_ms.set(now_ms());
        match answer {
            Answer::Ready => self.is_ready.set(true),
            Answer::Taken { chunk, wants_more } => {
                let state = self.tasks.borrow().get(&number).cloned();
                if let Some(state) = state {
                    self.ease(&state, u64::from(chunk.byte_length()));
                    state.has_enough.set(!wants_more);
                }
                crew.taken(chunk);
            }
            Answer::Done { buffer, verified } => {
                let buffer = buffer.map(|buffer| JsBuffer::owned(Uint8Array::new(&buffer)));
                self.end(number, Ok(Received { buffer, verified }));
            }
            Answer::Failed(error) => self.end(number, Err(TaskError::Failed(error))),
        }
        crew.eased();
    }
}

impl TaskState {
    /// Has `waker` woken when the task ends.
    pub(super) fn wake(&self, waker: &Waker) {
        self.waker.replace(Some(waker.clone()));
    }

    /// Why it was not done, if that is known already.
    pub(super) fn trouble(&self) -> Option<TaskError> {
        self.outcome.borrow().as_ref().and_then(|outcome| outcome.as_ref().err().cloned())
    }
}

/// Then the console does not tell of it, either.
fn prevent_default(event: &JsValue) {
    let function = Reflect::get(event, &"preventDefault".into()).and_then(|it| it.dyn_into::<js_sys::Function>());
    if let Ok(function) = function {
        function.call0(event).ok(); // an event's own method
    }
}
