//! Lists and deletes cached files. The code is deferred: `cached_files` has it.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::promise::{Stop, deferred_promise};
use super::{cached_files, cached_models, folder_path};
use crate::cache::client::Client;
use crate::cache::{UserCache, files};
use crate::deferred::Code;
use js_sys::{Array, Promise};
use wasm_bindgen::prelude::*;

/// Sets the cache object that the platform provides in place of the storage of a browser. Such a platform has the whole
/// module: the cache is not deferred there.
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
    deferred_promise(Code::CachedFiles, Stop::default(), cached_files::list)
}

/// Resolves after all earlier writes to the cache.
#[wasm_bindgen(js_name = cacheSettled)]
pub fn settled() -> Promise {
    deferred_promise(Code::Cache, Stop::default(), || async {
        files::settled().await.map(|()| JsValue::UNDEFINED).map_err(super::failure)
    })
}

/// Resolves to the path of the file with this name in a folder of the user.
#[wasm_bindgen(js_name = cacheFolderPath)]
pub fn path_in_folder(name: String) -> Promise {
    deferred_promise(Code::Databases, Stop::default(), move || folder_path::path(name))
}

/// Resolves to an array of `ModelFiles`: which cached files lead to which others, by their names in the cache.
#[wasm_bindgen(js_name = cacheModels)]
pub fn models() -> Promise {
    deferred_promise(Code::CachedFiles, Stop::default(), cached_models::list)
}

/// Resolves to the names under which the file at an absolute URL may be cached. `name` is what the caller passed, which
/// may be a name in the list.
#[wasm_bindgen(js_name = cacheNames)]
pub fn names(url: String, name: String) -> Promise {
    deferred_promise(Code::CachedFiles, Stop::default(), move || cached_files::names(url, name))
}

/// Deletes the files with these names, for all credentials that they were read with.
#[wasm_bindgen(js_name = cacheDelete)]
pub fn delete(names: Vec<String>) -> Promise {
    deferred_promise(Code::CachedFiles, Stop::default(), move || cached_files::delete(names))
}

/// Deletes all cached files.
#[wasm_bindgen(js_name = cacheClear)]
pub fn clear() -> Promise {
    deferred_promise(Code::CachedFiles, Stop::default(), cached_files::clear)
}

/// Resolves to an array with the length of the file of each URL, or `undefined` unless all its bytes are cached. If
/// `forgets`, the files are deleted. `options` are those of `openFile`. Requests nothing from the server.
///
/// The lengths in the list include the overhead of the storage, so a file that lacks less than that counts as complete.
#[wasm_bindgen(js_name = cacheFind)]
pub fn find(urls: Array, options: JsValue, forgets: bool) -> Promise {
    deferred_promise(Code::CachedFiles, Stop::default(), move || cached_files::find(urls, options, forgets))
}
