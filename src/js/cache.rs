//! Lists and deletes what is cached.

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

/// An array of `CachedFile`; empty where there is no cache. Files that were read with several credentials are in it
/// several times.
#[wasm_bindgen(js_name = cacheList)]
pub fn list() -> Promise {
    future_to_promise(async {
        let all = Array::new();
        for cache in caches().await {
            for file in cache.list().await.map_err(failure)? {
                let file: Array = file.unchecked_into();
                let key = file.get(0).as_string().unwrap_or_default();
                all.push(&value::object([
                    ("url", key::name_in(&key).into()),
                    ("cachedBytes", file.get(1)),
                    ("byteLength", file.get(2)),
                    ("lastUsed", js_sys::Date::new(&file.get(3)).into()),
                ]));
            }
        }
        Ok(all.into())
    })
}

/// Forgets a file, whatever the credentials that it was read with: by its absolute URL, or by its name as it is listed.
#[wasm_bindgen(js_name = cacheDelete)]
pub fn delete(url: String, name: String) -> Promise {
    future_to_promise(async move {
        for cache in caches().await {
            delete_from(&cache, &[key::name_of_url(&url), url.clone(), name.clone()]).await.map_err(failure)?;
        }
        Ok(JsValue::UNDEFINED)
    })
}

/// Forgets everything.
#[wasm_bindgen(js_name = cacheClear)]
pub fn clear() -> Promise {
    future_to_promise(async {
        for cache in caches().await {
            cache.clear().await.map_err(failure)?;
        }
        Ok(JsValue::UNDEFINED)
    })
}

/// All that files of this origin may be in.
fn caches() -> LocalBoxFuture<'static, Vec<Rc<Client>>> {
    let caches = async {
        let others = Client::of_others().await; // knows first where this page has them
        std::iter::once(Client::get()).chain(others).collect()
    };
    caches.boxed_local()
}

async fn delete_from(cache: &Rc<Client>, names: &[String]) -> Result<()> {
    let listed = cache.list().await?;
    let keys = listed.iter().filter_map(|file| file.unchecked_into::<Array>().get(0).as_string());
    let mut doomed: Vec<_> = keys.filter(|key| names.iter().any(|name| name == key::name_in(key))).collect();
    doomed.extend_from_slice(names); // also what cannot be listed
    for key in doomed {
        cache.delete(&key, None).await?;
    }
    Ok(())
}
