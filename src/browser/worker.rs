//! Starts and terminates workers. JavaScript provides the functions, because bundlers find a worker's file only if
//! JavaScript code references it.

use js_sys::{Array, Function, Reflect};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;

thread_local! {
    static START: RefCell<Option<Function>> = const { RefCell::new(None) };
    static END: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// The script of the workers, for messages. A macro, because messages without `format!` make the module smaller.
#[cfg(feature = "js")]
macro_rules! script {
    () => {
        "weightstream.worker.js"
    };
}
#[cfg(not(feature = "js"))]
macro_rules! script {
    () => {
        "the script of the workers"
    };
}
pub(crate) use script;

/// Sets the functions that start and terminate a worker. Without `end`, its method `terminate` is called.
pub(crate) fn set(start: Function, end: Option<Function>) {
    START.set(Some(start));
    END.set(end);
}

/// Whether there is a function that starts a worker.
#[cfg(not(feature = "js"))]
pub(crate) fn is_set() -> bool {
    START.with_borrow(Option::is_some)
}

/// Starts a worker with this role. A failure to load its script is reported later.
pub(crate) fn start(role: &str) -> Result<Worker, JsValue> {
    let start = START.with_borrow(Option::clone).ok_or(JsValue::UNDEFINED)?;
    let worker: Worker = start.call1(&JsValue::UNDEFINED, &role.into())?.unchecked_into();
    // The worker runs the same module, so the module is not downloaded or compiled again. The functions of the npm
    // package send it themselves: to one worker before this instance can.
    #[cfg(not(feature = "js"))]
    worker.post_message(&Array::of2(&wasm_bindgen::module(), &role.into()), &Array::new())?;
    Ok(worker)
}

/// Terminates a worker immediately.
pub(crate) fn end(worker: &Worker) {
    match END.with_borrow(Option::clone) {
        Some(end) => drop(end.call1(&JsValue::UNDEFINED, worker)), // `terminate` does not throw
        None => worker.terminate(),
    }
}

/// The error message for an exception at the start of a worker.
pub(crate) fn failed_to_start(exception: &JsValue) -> String {
    let reason = text(exception, "message").unwrap_or_else(|| "Worker is not available in this context".to_owned());
    format!("workers cannot be started: {reason}")
}

/// The error message for an error event of a worker. Browsers give no details about a script that they did not load or
/// run.
pub(crate) fn failed(event: &JsValue, has_started: bool) -> String {
    let reason = text(event, "message").filter(|message| !message.is_empty());
    match (has_started, reason) {
        (true, Some(reason)) => format!("a worker failed: {reason}"),
        (true, None) => "a worker failed, and the browser reports no reason".to_owned(),
        (false, Some(reason)) => format!(concat!(script!(), " does not run: {}"), reason),
        (false, None) => concat!(
            script!(),
            " cannot be loaded: it is not served or not bundled, or the page's Content-Security-Policy (`worker-src`) ",
            "forbids it"
        )
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
    #[wasm_bindgen(method)]
    fn terminate(this: &Worker);
    #[wasm_bindgen(method, setter, js_name = onmessage)]
    pub(crate) fn set_onmessage(this: &Worker, listener: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onerror)]
    pub(crate) fn set_onerror(this: &Worker, listener: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onmessageerror)]
    pub(crate) fn set_onmessageerror(this: &Worker, listener: &JsValue);
}
