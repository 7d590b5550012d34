//! The worker functions that JavaScript provides. Bundlers detect the script of a worker only if JavaScript names it.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use crate::browser::worker;
use js_sys::Function;
use wasm_bindgen::prelude::*;

/// Sets the functions that start and end a worker.
#[wasm_bindgen(js_name = setWorkers)]
pub fn set_workers(start: Function, end: Function) {
    worker::set(start, end);
}

/// The compiled module of this instance, for workers that JavaScript starts.
#[wasm_bindgen(js_name = thisModule)]
pub fn this_module() -> JsValue {
    wasm_bindgen::module()
}
