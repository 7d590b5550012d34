//! Promises for futures.

use super::failure::failure;
use crate::browser::deferred;
use crate::deferred::Code;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use js_sys::Promise;
use wasm_bindgen::JsValue;

/// Runs `work` and returns its promise. It is boxed, because the code that settles a promise is generated for each type
/// of future, and takes kilobytes of a module.
pub(super) fn future_to_promise(work: impl Future<Output = Result<JsValue, JsValue>> + 'static) -> Promise {
    let work: LocalBoxFuture<'static, Result<JsValue, JsValue>> = work.boxed_local();
    wasm_bindgen_futures::future_to_promise(work)
}

/// Runs `work` after the deferred code that it belongs to is loaded, and returns its promise. The call of `work` must
/// do no more than create the future.
pub(super) fn deferred_promise<F>(code: Code, work: impl FnOnce() -> F + 'static) -> Promise
where
    F: Future<Output = Result<JsValue, JsValue>> + 'static,
{
    future_to_promise(async move {
        deferred::load(code).await.map_err(failure)?;
        work().boxed_local().await
    })
}
