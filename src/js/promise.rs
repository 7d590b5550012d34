//! Promises for futures.

use super::cancel::{self, CloseSignal};
use crate::browser::deferred;
use crate::deferred::Code;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use js_sys::Promise;
use wasm_bindgen::JsValue;
use web_sys::AbortSignal;

type Work = LocalBoxFuture<'static, Result<JsValue, JsValue>>;

/// Runs `work` and returns its promise. It is boxed, because the code that settles a promise is generated for each type
/// of future, and takes kilobytes of a module.
pub(super) fn future_to_promise(work: impl Future<Output = Result<JsValue, JsValue>> + 'static) -> Promise {
    let work: Work = work.boxed_local();
    wasm_bindgen_futures::future_to_promise(work)
}

/// Runs `work` after the deferred code that it belongs to is loaded, and returns its promise. The call of `work` must
/// do no more than create the future. Until then, `stop` ends the call.
pub(super) fn deferred_promise<F>(code: Code, stop: Stop, work: impl FnOnce() -> F + 'static) -> Promise
where
    F: Future<Output = Result<JsValue, JsValue>> + 'static,
{
    promise_after_load(code, stop, Box::new(move || work().boxed_local()))
}

fn promise_after_load(code: Code, stop: Stop, work: Box<dyn FnOnce() -> Work>) -> Promise {
    future_to_promise(async move {
        cancel::run_until_stopped(stop.signal, &stop.close_signal, deferred::load(code)).await?;
        work().await
    })
}

/// What ends a call.
#[derive(Default)]
pub(super) struct Stop {
    pub(super) signal: Option<AbortSignal>,
    pub(super) close_signal: CloseSignal,
}
