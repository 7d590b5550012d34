//! Work that stops when its signal aborts or its loader closes: dropping a future stops its requests.

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

/// Whether a loader is closed, and who wants to know when it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Closing {
    is_closed: Rc<Cell<bool>>,
    waiting: Rc<RefCell<Vec<oneshot::Sender<()>>>>,
}

impl Closing {
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        for waiting in self.waiting.take() {
            waiting.send(()).ok(); // its work may have ended already
        }
    }

    /// Waits for it.
    pub(super) async fn closed(&self) {
        if self.is_closed.get() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting.borrow_mut();
            waiting.retain(|sender| !sender.is_canceled());
            waiting.push(sender);
        }
        receiver.await.ok();
    }
}

/// Does the work unless the signal aborts or the loader closes first. An abort rejects with the signal's own reason.
pub(super) async fn unless<T>(
    signal: Option<AbortSignal>,
    closing: &Closing,
    work: impl Future<Output = Result<T>>,
) -> Result<T, JsValue> {
    // The stop is asked first, so that a signal that is aborted already starts no work.
    match future::select(pin!(stopped(signal.as_ref(), closing)), pin!(work)).await {
        Either::Left((reason, _)) => Err(reason),
        Either::Right((outcome, _)) => outcome.map_err(failure),
    }
}

/// Waits until the signal aborts or the loader closes, and gives what calls reject with then.
pub(super) async fn stopped(signal: Option<&AbortSignal>, closing: &Closing) -> JsValue {
    let closed = pin!(closing.closed());
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

/// Waits for the abort and gives the signal's reason.
async fn aborted(signal: &AbortSignal) -> JsValue {
    use wasm_bindgen::JsCast;
    let signal: &Signal = signal.unchecked_ref();
    if !signal.aborted() {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let listener = Closure::new(move || {
            if let Some(sender) = sender.take() {
                sender.send(()).ok(); // the work may have ended already
            }
        });
        let listening = Listening { signal, listener };
        listening.signal.add_event_listener("abort", &listening.listener);
        receiver.await.ok();
    }
    signal.reason()
}

struct Listening<'a> {
    signal: &'a Signal,
    listener: Closure<dyn FnMut()>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.signal.remove_event_listener("abort", &self.listener);
    }
}
