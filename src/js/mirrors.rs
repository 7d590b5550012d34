//! The option `mirrors`, and what `stats` says about each address. The code is deferred.

use super::value;
use crate::source::Mirror;
use crate::source::mirrors::Mirrors;
use js_sys::Array;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// The addresses of a file: the source that is opened, and the mirrors.
#[inline(never)]
pub(super) fn of(source: &JsValue, urls: &Array) -> Rc<Mirrors> {
    Mirrors::new(source.as_string().unwrap_or_default(), urls.iter().filter_map(|url| url.as_string()))
}

/// The property `mirrors` of `stats`.
#[inline(never)]
pub(super) fn report(mirrors: &Mirrors) -> JsValue {
    let object = |mirror: Mirror| {
        value::object([
            ("url", mirror.url.into()),
            ("byteLength", value::from_u64(mirror.byte_length)),
            ("failure", mirror.failure.into()),
        ])
    };
    mirrors.report().into_iter().map(object).collect::<Array>().into()
}
