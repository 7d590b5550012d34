//! A panic is the end of a WebAssembly instance: nothing in it can be trusted, and nobody would answer the calls that
//! wait for it. What it says is told to JavaScript, whose net (`weightstream.guard.js`) catches the trap that follows,
//! as it catches every other exception that leaves the module.

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

/// Ends the instance, as no other call should: what follows is tested. `how` is one of `"panic"`, `"exception"` and
/// `"memory"`.
#[cfg(weightstream_test_hooks)]
#[wasm_bindgen(js_name = crashForTest)]
#[allow(clippy::panic, reason = "its purpose")]
pub fn crash_for_test(how: String, is_later: bool) {
    let crash = move || match how.as_str() {
        // JavaScript throws: the view would begin behind the buffer's end.
        "exception" => drop(js_sys::Uint8Array::new_with_byte_offset(&js_sys::ArrayBuffer::new(1), 2)),
        // A module has 4 GiB at most, of which nothing is touched.
        "memory" => drop(std::hint::black_box([(); 3].map(|()| Vec::<u8>::with_capacity(2_000_000_000)))),
        _ => panic!("this is a test"),
    };
    if is_later {
        wasm_bindgen_futures::spawn_local(async move { crash() });
    } else {
        crash();
    }
}
