//! Reports panics to JavaScript. After a panic, the state of the WebAssembly instance is undefined and its pending
//! calls would never settle. The panic hook passes the message to JavaScript. `module/guard.js` catches the trap
//! that follows, as it catches every other exception that leaves the module.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use js_sys::Function;
use std::cell::RefCell;
use std::panic;
use wasm_bindgen::prelude::*;

thread_local! {
    static PANIC_LISTENER: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Sets the listener that is called with the message and the location of a panic.
#[wasm_bindgen(js_name = onCrash)]
pub fn on_crash(listener: Function) {
    PANIC_LISTENER.set(Some(listener));
    panic::set_hook(Box::new(|panic| {
        let listener = PANIC_LISTENER.with(|listener| listener.try_borrow().ok().and_then(|listener| listener.clone()));
        if let Some(listener) = listener {
            listener.call1(&JsValue::UNDEFINED, &panic.to_string().into()).ok(); // a panic hook cannot return an error
        }
    }));
}

/// Crashes the instance, to test the recovery. `how` is `"panic"`, `"exception"` or `"memory"`.
#[cfg(weightstream_test_hooks)]
#[wasm_bindgen(js_name = crashForTest)]
#[allow(clippy::panic, reason = "this function must panic")]
pub fn crash_for_test(how: String, is_later: bool) {
    let crash = move || match how.as_str() {
        // JavaScript throws, because the view starts behind the end of the buffer.
        "exception" => drop(js_sys::Uint8Array::new_with_byte_offset(&js_sys::ArrayBuffer::new(1), 2)),
        // 6 GB exceed the 4 GiB that a module can address. The memory is never touched.
        "memory" => drop(std::hint::black_box([(); 3].map(|()| Vec::<u8>::with_capacity(2_000_000_000)))),
        _ => panic!("this is a test"),
    };
    if is_later {
        wasm_bindgen_futures::spawn_local(async move { crash() });
    } else {
        crash();
    }
}
