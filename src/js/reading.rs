//! A reader that JavaScript calls for one piece after another.

use super::cancel::{self, CloseSignal};
use super::promise::future_to_promise;
use crate::error::Error;
use futures::future;
use futures::lock::Mutex;
use js_sys::Promise;
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// A reader, and what stops it: its signal, the end of what it reads from, and [`Reading::cancel`].
pub(super) struct Reading<R> {
    /// `None` once the reader is cancelled or has failed.
    reader: Rc<Mutex<Option<R>>>,
    signal: Option<web_sys::AbortSignal>,
    close_signal: CloseSignal,
    cancelled: CloseSignal,
    /// Creates the error of calls after the end.
    closed_error: fn() -> Error,
}

impl<R: 'static> Reading<R> {
    pub(super) fn new(
        reader: R,
        signal: Option<web_sys::AbortSignal>,
        close_signal: CloseSignal,
        closed_error: fn() -> Error,
    ) -> Self {
        let (reader, cancelled) = (Rc::new(Mutex::new(Some(reader))), CloseSignal::default());
        let reading = Reading { reader, signal, close_signal, cancelled, closed_error };
        reading.drop_when_stopped();
        reading
    }

    /// Drops the reader when its signal aborts or what it reads from is closed, even if no call is pending.
    fn drop_when_stopped(&self) {
        let (reader, signal) = (Rc::downgrade(&self.reader), self.signal.clone());
        let (close_signal, cancelled) = (self.close_signal.clone(), self.cancelled.clone());
        spawn_local(async move {
            future::select(pin!(cancel::stopped(signal.as_ref(), &close_signal)), pin!(cancelled.closed())).await;
            if let Some(reader) = reader.upgrade() {
                *reader.lock().await = None;
            }
        });
    }

    /// Runs `work` with the reader, after all earlier work.
    pub(super) fn run(&self, work: impl AsyncFnOnce(&mut R) -> Result<JsValue, Error> + 'static) -> Promise {
        let (reader, signal, closed_error) = (Rc::clone(&self.reader), self.signal.clone(), self.closed_error);
        let (close_signal, cancelled) = (self.close_signal.clone(), self.cancelled.clone());
        future_to_promise(async move {
            let work = async {
                let mut reader = reader.lock().await;
                let outcome = match reader.as_mut() {
                    Some(reader) => work(reader).await,
                    None => Err(closed_error()),
                };
                if outcome.is_err() {
                    *reader = None; // an error ends the reader
                }
                outcome
            };
            let unless_cancelled = async { cancel::run_until_stopped(signal, &close_signal, work).await };
            let outcome = cancel::run_until_closed(&cancelled, unless_cancelled).await;
            let outcome = outcome.unwrap_or_else(|| Err(super::failure(closed_error())));
            if outcome.is_err()
                && let Some(mut reader) = reader.try_lock()
            {
                *reader = None; // an abort stops the request
            }
            outcome
        })
    }

    /// Calls `look` with the reader, if it is neither at work nor stopped.
    pub(super) fn with(&self, look: impl FnOnce(&R)) {
        if let Some(reader) = self.reader.try_lock()
            && let Some(reader) = reader.as_ref()
        {
            look(reader);
        }
    }

    /// Stops the request.
    pub(super) fn cancel(&self) {
        self.cancelled.close();
        if let Some(mut reader) = self.reader.try_lock() {
            *reader = None;
        }
    }
}

impl<R> Drop for Reading<R> {
    fn drop(&mut self) {
        self.cancelled.close();
    }
}
