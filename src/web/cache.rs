//! The cache of downloaded files: the option, and what is cached.

use super::{Report, workers};
use crate::cache::{CacheOption, UserCache, files, key};
use crate::error::{Error, ErrorKind, Result};
use crate::source::cached::KeyFunction;
use crate::source::web::WebSource;
use futures::future::FutureExt;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// Where files are cached. Every read from a cache is verified. A cache that cannot be used is reported by
/// [`Model::cache_error`](crate::Model::cache_error); the load then uses the network.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cache {
    /// The origin private file system (OPFS), or else IndexedDB. Nothing is cached if the browser keeps OPFS in memory,
    /// as in private windows.
    Auto,
    /// OPFS, even if it is in memory.
    Opfs,
    /// A JavaScript object with the methods `get(key)`, `set(key, bytes)`, `delete(key)` and `keys()`, which may return
    /// promises.
    Object(JsValue),
}

/// A cached file, complete or in part.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CachedFile {
    /// The URL of the file, without parameters that only sign it.
    pub url: String,
    /// The number of bytes in the cache.
    pub cached_bytes: u64,
    /// The length of the whole file, if it is known.
    pub byte_length: Option<u64>,
    /// When the file was last used, in milliseconds since 1970.
    pub last_used_ms: u64,
}

/// Lists the cached files of this origin; none if there is no cache. A file that was read with several credentials is
/// listed once for each of them.
///
/// # Errors
/// `IO` if the browser's storage fails.
pub async fn cached_files() -> Result<Vec<CachedFile>> {
    workers::set_script();
    let files = files::list().boxed_local().await?;
    let public = |file: crate::cache::backend::CachedFile| CachedFile {
        url: key::name_in(&file.key).to_owned(),
        cached_bytes: file.cached_bytes,
        byte_length: file.byte_length,
        last_used_ms: file.last_used_ms,
    };
    Ok(files.into_iter().map(public).collect())
}

/// Deletes the cached file of an absolute URL. Succeeds if there is none.
///
/// # Errors
/// `IO` if the browser's storage fails.
pub async fn delete_cached(url: &str) -> Result<()> {
    workers::set_script();
    files::delete(&[key::name_of_url(url), url.to_owned()]).boxed_local().await
}

/// Deletes all cached files of this origin.
///
/// # Errors
/// `IO` if the browser's storage fails.
pub async fn clear_cache() -> Result<()> {
    workers::set_script();
    files::clear().boxed_local().await
}

/// Adds the cache to a source.
pub(crate) async fn add_to(source: WebSource, cache: Option<Cache>, report: &Report) -> Result<WebSource> {
    let option = match cache {
        None => return Ok(source),
        Some(Cache::Auto) => CacheOption::Auto,
        Some(Cache::Opfs) => CacheOption::Files,
        Some(Cache::Object(object)) => CacheOption::UserCache(UserCache::new(object).ok_or_else(no_cache)?),
    };
    workers::set_script();
    source.with_cache(option, KeyFunction::default(), Rc::clone(&report.cache)).await
}

fn no_cache() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the object of `Cache::Object` lacks one of get, set, delete and keys")
}
