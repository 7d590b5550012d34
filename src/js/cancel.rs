//! Cancels work when its signal aborts or its loader closes. Dropping the future of the work stops its requests.

use super::failure;
use crate::error::{Error, ErrorKind, Result};
use futures::channel::oneshot;
use futures::future::{self, Either};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::{Closure, wasm_bindgen};
use web_sys::AbortSignal;

/// Tells pending work that a loader is closed.
#[derive(Debug, Clone, Default)]
pub(super) struct CloseSignal {
    is_closed: Rc<Cell<bool>>,
    waiters: Rc<RefCell<Vec<oneshot::Sender<()>>>>,
}

impl CloseSignal {
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        for waiter in self.waiters.take() {
            waiter.send(()).ok(); // the receiver is gone if its work has ended
        }
    }

    /// Waits until the loader is closed.
    pub(super) async fn closed(&self) {
        if self.is_closed.get() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiters = self.waiters.borrow_mut();
            waiters.retain(|sender| !sender.is_canceled());
            waiters.push(sender);
        }
        receiver.await.ok();
    }
}

/// Runs the work until it completes, the signal aborts or the loader closes. An abort rejects with the signal's own
/// reason.
pub(super) async fn run_until_stopped<T>(
    signal: Option<AbortSignal>,
    close_signal: &CloseSignal,
    work: impl Future<Output = Result<T>>,
) -> Result<T, JsValue> {
    // `select` polls `stopped` first, so no work starts if the signal is already aborted.
    match future::select(pin!(stopped(signal.as_ref(), close_signal)), pin!(work)).await {
        Either::Left((reason, _)) => Err(reason),
        Either::Right((outcome, _)) => outcome.map_err(failure),
    }
}

/// Runs the work until it completes or `close_signal` is closed, and returns `None` in the latter case.
pub(super) async fn run_until_closed<T>(close_signal: &CloseSignal, work: impl Future<Output = T>) -> Option<T> {
    match future::select(pin!(close_signal.closed()), pin!(work)).await {
        Either::Left(_) => None,
        Either::Right((outcome, _)) => Some(outcome),
    }
}

/// Waits until the signal aborts or the loader closes. Returns the value that pending calls reject with.
pub(super) async fn stopped(signal: Option<&AbortSignal>, close_signal: &CloseSignal) -> JsValue {
    let closed = pin!(close_signal.closed());
    match signal {
        None => closed.await,
        Some(signal) => {
            if let Either::Left((reason, _)) = future::select(pin!(aborted(signal)), closed).await {
                return reason;
            }
        }
    }
    failure(closed_error())
}

pub(super) fn closed_error() -> Error {
    Error::new(ErrorKind::Closed, "the loader is closed")
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(extends = AbortSignal)]
    type Signal;
    #[wasm_bindgen(method, js_name = addEventListener)]
    fn add_event_listener(this: &Signal, kind: &str, listener: &Closure<dyn FnMut()>);
    #[wasm_bindgen(method, js_name = removeEventListener)]
    fn remove_event_listener(this: &Signal, kind: &str, listener: &Closure<dyn FnMut()>);
    #[wasm_bindgen(method, getter)]
    fn reason(this: &Signal) -> JsValue;
}

/// Waits until the signal aborts, and returns its reason.
async fn aborted(signal: &AbortSignal) -> JsValue {
    use wasm_bindgen::JsCast;
    let signal: &Signal = signal.unchecked_ref();
    if !signal.aborted() {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let listener = Closure::new(move || {
            if let Some(sender) = sender.take() {
                sender.send(()).ok(); // the receiver is gone if the work has ended
            }
        });
        let registered = AbortListener { signal, listener };
        registered.signal.add_event_listener("abort", &registered.listener);
        receiver.await.ok();
    }
    signal.reason()
}

/// Removes the event listener when it is dropped.
struct AbortListener<'a> {
    signal: &'a Signal,
    listener: Closure<dyn FnMut()>,
}

impl Drop for AbortListener<'_> {
    fn drop(&mut self) {
        self.signal.remove_event_listener("abort", &self.listener);
    }
}
