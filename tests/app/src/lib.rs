//! Loads models for a page, with and without the cache and workers.

#![cfg(target_arch = "wasm32")]
#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use futures::TryStreamExt;
use js_sys::{Array, Function, Object, Reflect, Uint8Array};
use serde_json::json;
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use weightstream::web;

/// Shows that the app has started. There is no document in a worker.
#[wasm_bindgen(start)]
fn start() -> Result<(), JsValue> {
    if web::is_worker() {
        return Ok(());
    }
    let document = web_sys::window().and_then(|window| window.document()).ok_or("no document")?;
    document.set_title("started");
    Ok(())
}

/// Sets the function that starts a worker.
#[wasm_bindgen(js_name = setWorker)]
pub fn set_worker(start: Function) {
    web::set_worker(start);
}

/// Loads all tensors. Returns an object with their bytes, and a report in JSON. `cache` is "auto", "none" or an object.
#[wasm_bindgen]
pub async fn load(url: String, cache: JsValue, workers: usize) -> Result<Array, JsError> {
    let mut options = web::Options::default();
    options.cache = match cache.as_string().as_deref() {
        Some("auto") => Some(web::Cache::Auto),
        Some(_) => None,
        None => Some(web::Cache::Object(cache)),
    };
    options.workers = workers;
    let report = options.report.clone();
    let loader = web::open(&url, options).await?;
    let tensors = Object::new();
    let mut stream = pin!(loader.tensors(None, Rc::new(())).await?);
    while let Some(loaded) = stream.try_next().await? {
        let bytes = loaded.components.first().map(|component| component.buffer.bytes());
        Reflect::set(&tensors, &loaded.tensor.name.as_str().into(), bytes.unwrap_or(&Uint8Array::default()))
            .map_err(|_| JsError::new("the object cannot be extended"))?;
    }
    let report = json!({
        "fromCache": loader.stats().bytes_from_cache(),
        "received": loader.stats().bytes_received(),
        "cacheError": report.cache_error(),
        "workersError": report.workers_error(),
    });
    Ok(Array::of2(&tensors, &report.to_string().into()))
}

/// The cached files in JSON.
#[wasm_bindgen]
pub async fn cached() -> Result<String, JsError> {
    let files = web::cached_files().await?;
    let files = files.iter().map(|file| json!([file.url, file.cached_bytes, file.byte_length]));
    Ok(files.collect::<serde_json::Value>().to_string())
}

/// Deletes one cached file.
#[wasm_bindgen(js_name = deleteCached)]
pub async fn delete_cached(url: String) -> Result<(), JsError> {
    Ok(web::delete_cached(&url).await?)
}

/// Deletes all cached files.
#[wasm_bindgen(js_name = clearCache)]
pub async fn clear_cache() -> Result<(), JsError> {
    Ok(web::clear_cache().await?)
}
