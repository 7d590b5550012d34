//! Lists and deletes cached files.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::failure::failure;
use super::value;
use crate::cache::client::Client;
use crate::cache::key;
use crate::error::Result;
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::{Array, Promise};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

/// Resolves to an array of `CachedFile`. The array is empty if there is no cache. A file that was read with several
/// credentials is listed once for each of them.
#[wasm_bindgen(js_name = cacheList)]
pub fn list() -> Promise {
    future_to_promise(async {
        let all = Array::new();
        for cache in caches().await {
            for file in cache.list().await.map_err(failure)? {
                all.push(&value::object([
                    ("url", key::name_in(&file.key).into()),
                    ("cachedBytes", value::from_u64(file.cached_bytes)),
                    ("byteLength", file.byte_length.map_or(JsValue::UNDEFINED, value::from_u64)),
                    ("lastUsed", js_sys::Date::new(&(file.last_used_ms as f64).into()).into()),
                ]));
            }
        }
        Ok(all.into())
    })
}

/// Deletes a file, for all credentials that it was read with. `url` is its absolute URL, `name` its name in the list.
#[wasm_bindgen(js_name = cacheDelete)]
pub fn delete(url: String, name: String) -> Promise {
    future_to_promise(async move {
        for cache in caches().await {
            delete_from(&cache, &[key::name_of_url(&url), url.clone(), name.clone()]).await.map_err(failure)?;
        }
        Ok(JsValue::UNDEFINED)
    })
}

/// Deletes all cached files.
#[wasm_bindgen(js_name = cacheClear)]
pub fn clear() -> Promise {
    future_to_promise(async {
        for cache in caches().await {
            cache.clear().await.map_err(failure)?;
        }
        Ok(JsValue::UNDEFINED)
    })
}

/// All caches that may contain files of this origin.
fn caches() -> LocalBoxFuture<'static, Vec<Rc<Client>>> {
    let caches = async {
        let others = Client::indexed_db_of_others().await; // runs first: it determines where this page caches
        std::iter::once(Client::get()).chain(others).collect()
    };
    caches.boxed_local()
}

async fn delete_from(cache: &Rc<Client>, names: &[String]) -> Result<()> {
    let listed = cache.list().await?;
    let keys = listed.into_iter().map(|file| file.key);
    let mut deleted: Vec<_> = keys.filter(|key| names.iter().any(|name| name == key::name_in(key))).collect();
    deleted.extend_from_slice(names); // also deletes entries that cannot be listed
    for key in deleted {
        cache.delete(&key, None).await?;
    }
    Ok(())
}
