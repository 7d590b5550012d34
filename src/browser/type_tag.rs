//! Type checks of JavaScript values from any realm. `instanceof` fails for values from frames and other windows.

use js_sys::{ArrayBuffer, Function, Object, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};

/// The [`tag`] of a `SharedArrayBuffer`.
pub(crate) const SHARED: &str = "[object SharedArrayBuffer]";

#[wasm_bindgen]
extern "C" {
    // Throws for detached memory; the constructor of js-sys does not catch the exception.
    #[wasm_bindgen(js_name = Uint8Array)]
    type Bytes;
    #[wasm_bindgen(constructor, catch, js_class = "Uint8Array")]
    fn new(buffer: &JsValue, offset: f64, length: f64) -> Result<Bytes, JsValue>;
}

/// Returns the result of `Object.prototype.toString`, for example `"[object Blob]"`.
pub(crate) fn tag(value: &JsValue) -> String {
    let prototype = Object::get_prototype_of(&Object::new());
    let to_string = Reflect::get(&prototype, &"toString".into()).and_then(|function| function.dyn_into::<Function>());
    to_string.and_then(|function| function.call0(value)).ok().and_then(|tag| tag.as_string()).unwrap_or_default()
}

/// Returns a view of a fixed length over an ArrayBuffer, a SharedArrayBuffer, or a view of one. `None` for any other
/// value and for detached memory.
pub(crate) fn view(value: &JsValue) -> Option<Uint8Array> {
    let field = |name: &str| Reflect::get(value, &name.into()).ok();
    let length = || field("byteLength").and_then(|length| length.as_f64());
    let bytes = if ArrayBuffer::is_view(value) {
        Bytes::new(&field("buffer")?, field("byteOffset")?.as_f64()?, length()?)
    } else if matches!(tag(value).as_str(), "[object ArrayBuffer]" | SHARED) {
        Bytes::new(value, 0.0, length()?)
    } else {
        return None;
    };
    bytes.ok().map(JsCast::unchecked_into)
}
