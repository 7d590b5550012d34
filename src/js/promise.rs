//! Promises for futures.

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
