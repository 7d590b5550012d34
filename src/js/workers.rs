//! The functions that JavaScript provides to start workers and to load the deferred part of the module. Bundlers detect
//! these files only if JavaScript names them.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use crate::browser::{deferred, worker};
use js_sys::Function;
use wasm_bindgen::prelude::*;

/// Sets the functions that start and end a worker.
#[wasm_bindgen(js_name = setWorkers)]
pub fn set_workers(start: Function, end: Function) {
    worker::set(start, end);
}

/// Sets the function that loads the deferred part of the module, for a module without it. The promise that it returns
/// settles when the code of that part can be called.
#[wasm_bindgen(js_name = setDeferred)]
pub fn set_deferred(load: Function) {
    deferred::set(load);
}

/// The compiled module of this instance, for workers that JavaScript starts.
#[wasm_bindgen(js_name = thisModule)]
pub fn this_module() -> JsValue {
    wasm_bindgen::module()
}
