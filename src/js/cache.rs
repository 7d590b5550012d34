//! Lists and deletes cached files.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::failure::failure;
use super::promise::future_to_promise;
use super::{options, value};
use crate::cache::client::Client;
use crate::cache::{UserCache, files, key};
use crate::source::fetch::FetchSource;
use futures::future::FutureExt;
use js_sys::{Array, Promise};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// Sets the cache object that the platform provides in place of the storage of a browser.
#[wasm_bindgen(js_name = setCache)]
pub fn set(object: JsValue) {
    if let Some(cache) = UserCache::new(object) {
        Client::set_platform(cache);
    }
}

/// Resolves to an array of `CachedFile`. The array is empty if there is no cache. A file that was read with several
/// credentials is listed once for each of them.
#[wasm_bindgen(js_name = cacheList)]
pub fn list() -> Promise {
    future_to_promise(async {
        let all = Array::new();
        for file in files::list().await.map_err(failure)? {
            all.push(&value::object([
                ("url", key::name_in(&file.key).into()),
                ("cachedBytes", value::from_u64(file.cached_bytes)),
                ("byteLength", file.byte_length.map_or(JsValue::UNDEFINED, value::from_u64)),
                ("lastUsed", js_sys::Date::new(&(file.last_used_ms as f64).into()).into()),
            ]));
        }
        Ok(all.into())
    })
}

/// The names under which the file at an absolute URL may be cached. `name` is what the caller passed, which may be a
/// name in the list.
#[wasm_bindgen(js_name = cacheNames)]
pub fn names(url: String, name: String) -> Vec<String> {
    vec![key::name_of_url(&url), url, name]
}

/// Deletes the files with these names, for all credentials that they were read with.
#[wasm_bindgen(js_name = cacheDelete)]
pub fn delete(names: Vec<String>) -> Promise {
    future_to_promise(async move {
        files::delete(&names).await.map_err(failure)?;
        Ok(JsValue::UNDEFINED)
    })
}

/// Deletes all cached files.
#[wasm_bindgen(js_name = cacheClear)]
pub fn clear() -> Promise {
    future_to_promise(async {
        files::clear().await.map_err(failure)?;
        Ok(JsValue::UNDEFINED)
    })
}

/// Resolves to an array that tells for each URL whether all bytes of its file are cached. If `forgets`, the files are
/// deleted. `options` are those of `openFile`. Requests nothing from the server.
///
/// The lengths in the list include the overhead of the storage, so a file that lacks less than that counts as complete.
#[wasm_bindgen(js_name = cacheFind)]
pub fn find(urls: Array, options: JsValue, forgets: bool) -> Promise {
    future_to_promise(async move {
        let mut keys = Vec::new();
        let mut choice = None;
        for url in urls {
            let settings = options::read_file(&url, &options)?;
            let url = url.as_string().unwrap_or_default();
            let name = settings.key_function.name(&url).map_err(failure)?;
            let partition = FetchSource::new(url, Rc::new(settings.client)).partition();
            keys.push(key::join(partition.as_deref(), &name));
            choice = settings.cache;
        }
        let mut listed = Vec::new();
        if let Some(choice) = choice
            && let (Some(cache), _) = choice.open().boxed_local().await
        {
            listed = cache.list().boxed_local().await.map_err(failure)?;
            for key in keys.iter().filter(|_| forgets) {
                cache.delete(key, None).boxed_local().await.map_err(failure)?;
            }
        }
        let is_complete = |key: &String| {
            let file = listed.iter().find(|file| file.key == *key);
            file.is_some_and(|file| file.byte_length.is_some_and(|byte_length| file.cached_bytes >= byte_length))
        };
        Ok(keys.iter().map(|key| JsValue::from(is_complete(key))).collect::<Array>().into())
    })
}
