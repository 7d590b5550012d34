//! The `navigator` object of pages and workers.

use js_sys::Reflect;
use wasm_bindgen::JsValue;

/// Returns a property of `navigator` that is an object.
///
/// # Errors
/// If the browser does not support it.
pub(crate) fn navigator(part: &str) -> Result<JsValue, JsValue> {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into())?;
    let part = Reflect::get(&navigator, &part.into())?;
    if part.is_object() { Ok(part) } else { Err(JsValue::UNDEFINED) }
}

/// Whether the browser reports that it is offline.
pub(crate) fn is_offline() -> bool {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into());
    navigator
        .and_then(|navigator| Reflect::get(&navigator, &"onLine".into()))
        .is_ok_and(|online| online == JsValue::FALSE)
}
