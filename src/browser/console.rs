//! The console of the page.

use std::cell::Cell;
use wasm_bindgen::prelude::*;

thread_local! {
    static HAS_WARNED: Cell<bool> = const { Cell::new(false) };
}

/// Shows the first warning of this thread on the console. Pages with many models would repeat the others.
pub(crate) fn warn_once(message: &str) {
    if !HAS_WARNED.replace(true) {
        warn(message);
    }
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console)]
    fn warn(message: &str);
}
