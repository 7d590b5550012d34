//! Loads models for a page, with and without the cache and workers.

#![cfg(target_arch = "wasm32")]
#![allow(unreachable_pub, clippy::missing_errors_doc, reason = "wasm-bindgen exports only what is `pub`, to a test")]

use js_sys::{Array, Function, Object, Reflect};
use serde_json::json;
use wasm_bindgen::prelude::*;
use weightstream::{OpenOptions, StreamRequest, web};

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
    let options = OpenOptions::new().workers(workers);
    let options = match cache.as_string().as_deref() {
        Some("auto") => options.cache(web::Cache::Auto),
        Some(_) => options,
        None => options.cache(web::Cache::Object(cache)),
    };
    let model = options.open(&url).await?;
    let tensors = Object::new();
    let mut stream = model.stream(StreamRequest::new());
    while let Some(loaded) = stream.next().await {
        let loaded = loaded?;
        let bytes: JsValue = loaded.array()?.into();
        Reflect::set(&tensors, &loaded.name().into(), &bytes)
            .map_err(|_| JsError::new("the object cannot be extended"))?;
    }
    let report = json!({
        "fromCache": model.stats().bytes_from_cache(),
        "received": model.stats().bytes_received(),
        "cacheError": model.cache_error(),
        "workersError": model.workers_error(),
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
