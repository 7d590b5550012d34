//! What JavaScript sets up for workers: bundlers find a worker's file only where JavaScript names it.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use crate::browser::worker;
use js_sys::Function;
use wasm_bindgen::prelude::*;

/// Sets what starts a worker, and what ends one.
#[wasm_bindgen(js_name = setWorkers)]
pub fn set_workers(start: Function, end: Function) {
    worker::set(start, end);
}

/// The module that runs here, for a worker that JavaScript starts.
#[wasm_bindgen(js_name = thisModule)]
pub fn this_module() -> JsValue {
    wasm_bindgen::module()
}
