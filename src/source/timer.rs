//! Time in the browser.

use js_sys::Promise;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    // Pages and workers both have them on the global object.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &js_sys::Function, delay_ms: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
    /// Milliseconds since the page or the worker began.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(super) fn now_ms() -> f64;
}

/// Waits; dropping the future clears the timer.
pub(crate) async fn pause(delay_ms: u64) {
    let mut timer = Timer(JsValue::UNDEFINED);
    let elapsed = Promise::new(&mut |resolve, _| timer.0 = set_timeout(&resolve, delay_ms as f64));
    drop(JsFuture::from(elapsed).await); // a timer's promise does not reject
}

struct Timer(JsValue);

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.0);
    }
}
