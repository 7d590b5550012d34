//! How workers are started and ended: JavaScript says it, since bundlers find their file only where that names it.

use js_sys::{Array, Function, Reflect};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;

thread_local! {
    static START: RefCell<Option<Function>> = const { RefCell::new(None) };
    static END: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Sets what starts a worker, and what ends one.
pub(crate) fn set(start: Function, end: Function) {
    START.set(Some(start));
    END.set(Some(end));
}

/// A new worker, which will do what `role` says. Whether it really starts turns out later.
pub(crate) fn start(role: &str) -> Result<Worker, JsValue> {
    let start = START.with_borrow(Option::clone).ok_or(JsValue::UNDEFINED)?;
    let worker: Worker = start.call0(&JsValue::UNDEFINED)?.unchecked_into();
    // It runs the same module, which need be neither found nor compiled again.
    worker.post_message(&Array::of2(&wasm_bindgen::module(), &role.into()), &Array::new())?;
    Ok(worker)
}

/// Ends a worker, whatever it does.
pub(crate) fn end(worker: &Worker) {
    if let Some(end) = END.with_borrow(Option::clone) {
        end.call1(&JsValue::UNDEFINED, worker).ok(); // `terminate` does not throw
    }
}

/// Why a worker could not be started, of what the browser threw.
pub(crate) fn failed_to_start(exception: &JsValue) -> String {
    let reason = text(exception, "message").unwrap_or_else(|| "this place has no Worker".to_owned());
    format!("workers cannot be started: {reason}")
}

/// Why a worker is given up, of its error event. Browsers say nothing of a script that they did not load or run.
pub(crate) fn failed(event: &JsValue, has_started: bool) -> String {
    let reason = text(event, "message").filter(|message| !message.is_empty());
    match (has_started, reason) {
        (true, Some(reason)) => format!("a worker failed: {reason}"),
        (true, None) => "a worker failed, and the browser does not say why".to_owned(),
        (false, Some(reason)) => format!("weightstream.worker.js does not run: {reason}"),
        (false, None) => "weightstream.worker.js cannot be loaded: it is not served or not bundled, or the page's \
                          Content-Security-Policy (`worker-src`) forbids it"
            .to_owned(),
    }
}

fn text(value: &JsValue, name: &str) -> Option<String> {
    Reflect::get(value, &name.into()).ok().and_then(|text| text.as_string())
}

#[wasm_bindgen]
extern "C" {
    /// A dedicated worker.
    #[derive(Debug, Clone)]
    pub(crate) type Worker;
    #[wasm_bindgen(method, catch, js_name = postMessage)]
    pub(crate) fn post_message(this: &Worker, message: &JsValue, transferred: &Array) -> Result<(), JsValue>;
    #[wasm_bindgen(method, setter, js_name = onmessage)]
    pub(crate) fn set_onmessage(this: &Worker, listener: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onerror)]
    pub(crate) fn set_onerror(this: &Worker, listener: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onmessageerror)]
    pub(crate) fn set_onmessageerror(this: &Worker, listener: &JsValue);
}
