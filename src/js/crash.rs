//! A panic is the end of a WebAssembly instance: nothing in it can be trusted, and nobody would answer the calls that
//! wait for it. So JavaScript is told, which rejects them and gives the next `open` a new instance.

#![allow(unreachable_pub, reason = "JavaScript reaches it: wasm-bindgen exports public functions only")]

use js_sys::Function;
use std::cell::RefCell;
use std::panic;
use wasm_bindgen::prelude::*;

thread_local! {
    static TELL: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// From now on `tell` is called with what a panic says and where it was.
#[wasm_bindgen(js_name = onCrash)]
pub fn on_crash(tell: Function) {
    TELL.set(Some(tell));
    panic::set_hook(Box::new(|panic| {
        let tell = TELL.with(|tell| tell.try_borrow().ok().and_then(|tell| tell.clone()));
        if let Some(tell) = tell {
            tell.call1(&JsValue::UNDEFINED, &panic.to_string().into()).ok(); // there is nobody else to tell
        }
    }));
}

/// Panics: no other call should, and what follows is tested.
#[cfg(feature = "crash-test")]
#[wasm_bindgen(js_name = crashForTest)]
#[allow(clippy::panic, reason = "its purpose")]
pub fn crash_for_test(is_later: bool) {
    let crash = || panic!("this is a test");
    if is_later {
        wasm_bindgen_futures::spawn_local(async move { crash() });
    } else {
        crash();
    }
}
