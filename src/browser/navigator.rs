//! The `navigator` object, which pages and workers both have.

use js_sys::Reflect;
use wasm_bindgen::JsValue;

/// A member of `navigator` that is an object.
///
/// # Errors
/// Where the browser lacks it.
pub(crate) fn navigator(part: &str) -> Result<JsValue, JsValue> {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into())?;
    let part = Reflect::get(&navigator, &part.into())?;
    if part.is_object() { Ok(part) } else { Err(JsValue::UNDEFINED) }
}

/// Whether the browser knows that it has no connection.
pub(crate) fn is_offline() -> bool {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into());
    navigator
        .and_then(|navigator| Reflect::get(&navigator, &"onLine".into()))
        .is_ok_and(|online| online == JsValue::FALSE)
}
