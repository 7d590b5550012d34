//! What is kept, for whoever wants to see it or have it gone.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::failure::failure;
use super::value;
use crate::cache::client::Client;
use js_sys::{Array, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

/// An array of `CachedFile`; empty where there is no cache.
#[wasm_bindgen(js_name = cacheList)]
pub fn list() -> Promise {
    future_to_promise(async {
        let Some(cache) = Client::get() else { return Ok(Array::new().into()) };
        let files = cache.list().await.map_err(failure)?.into_iter().map(|file| {
            let file: Array = file.unchecked_into();
            value::object([
                ("url", file.get(0)),
                ("cachedBytes", file.get(1)),
                ("byteLength", file.get(2)),
                ("lastUsed", js_sys::Date::new(&file.get(3)).into()),
            ])
        });
        Ok(files.collect::<Array>().into())
    })
}

/// Forgets the file at an absolute URL.
#[wasm_bindgen(js_name = cacheDelete)]
pub fn delete(url: String) -> Promise {
    future_to_promise(async move {
        if let Some(cache) = Client::get() {
            cache.delete(&url, None).await.map_err(failure)?;
        }
        Ok(JsValue::UNDEFINED)
    })
}

/// Forgets everything.
#[wasm_bindgen(js_name = cacheClear)]
pub fn clear() -> Promise {
    future_to_promise(async {
        if let Some(cache) = Client::get() {
            cache.clear().await.map_err(failure)?;
        }
        Ok(JsValue::UNDEFINED)
    })
}
