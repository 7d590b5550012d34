//! The functions that JavaScript provides. They start workers and load deferred parts of the module, because
//! bundlers detect these files only if JavaScript names them, and know what the policy of the page forbids.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use crate::browser::{csp, deferred, worker};
use js_sys::Function;
use wasm_bindgen::prelude::*;

/// Sets the functions that start and end a worker.
#[wasm_bindgen(js_name = setWorkers)]
pub fn set_workers(start: Function, end: Function) {
    worker::set(start, Some(end));
}

/// Sets the function that loads a deferred part of the module, for a module without them. It gets the number of the
/// part. The promise that it returns settles when the code of that part can be called.
#[wasm_bindgen(js_name = setDeferred)]
pub fn set_deferred(load: Function) {
    deferred::set(load);
}

/// Sets the function that resolves to whether a request for a URL has violated the page's Content-Security-Policy.
#[wasm_bindgen(js_name = setPolicy)]
pub fn set_policy(is_forbidden: Function) {
    csp::set(is_forbidden);
}

/// The compiled module of this instance, for workers that JavaScript starts.
#[wasm_bindgen(js_name = thisModule)]
pub fn this_module() -> JsValue {
    wasm_bindgen::module()
}
