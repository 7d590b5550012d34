//! The deferred code that lists and deletes cached files.

use super::failure::failure;
use super::{options, value};
use crate::cache::{files, key, pending};
use crate::source::fetch::FetchSource;
use futures::future::FutureExt;
use js_sys::{Array, Date};
use wasm_bindgen::JsValue;

/// An array of `CachedFile`.
pub(super) async fn list() -> Result<JsValue, JsValue> {
    let all = Array::new();
    for file in files::list().await.map_err(failure)? {
        all.push(&value::object([
            ("url", key::name_in(&file.key).into()),
            ("cachedBytes", value::from_u64(file.cached_bytes)),
            ("byteLength", file.byte_length.map_or(JsValue::UNDEFINED, value::from_u64)),
            ("lastUsed", Date::new(&(file.last_used_ms as f64).into()).into()),
        ]));
    }
    Ok(all.into())
}

pub(super) async fn names(url: String, name: String) -> Result<JsValue, JsValue> {
    Ok([key::name_of_url(&url), url, name].into_iter().map(JsValue::from).collect::<Array>().into())
}

pub(super) async fn delete(names: Vec<String>) -> Result<JsValue, JsValue> {
    files::delete(&names).await.map_err(failure)?;
    Ok(JsValue::UNDEFINED)
}

pub(super) async fn clear() -> Result<JsValue, JsValue> {
    files::clear().await.map_err(failure)?;
    Ok(JsValue::UNDEFINED)
}

/// For each URL, the length of its file if all bytes are cached.
pub(super) async fn find(urls: Array, options: JsValue, forgets: bool) -> Result<JsValue, JsValue> {
    let mut keys = Vec::new();
    let mut choice = None;
    for url in urls {
        let settings = options::read_file(&url, &options)?;
        let url = url.as_string().unwrap_or_default();
        let name = settings.key_function.name(&url).map_err(failure)?;
        let partition = FetchSource::new(url, settings.client).partition();
        keys.push(key::join(partition.as_deref(), &name));
        choice = settings.cache;
    }
    let mut listed = Vec::new();
    pending::stored().await;
    if let Some(choice) = choice
        && let (Some(cache), _) = choice.open().boxed_local().await
    {
        listed = cache.list().boxed_local().await.map_err(failure)?;
        for key in keys.iter().filter(|_| forgets) {
            cache.delete(key, None).boxed_local().await.map_err(failure)?;
        }
    }
    let complete_length = |key: &String| {
        let file = listed.iter().find(|file| file.key == *key)?;
        file.byte_length.filter(|byte_length| file.cached_bytes >= *byte_length)
    };
    let lengths = keys.iter().map(|key| complete_length(key).map_or(JsValue::UNDEFINED, value::from_u64));
    Ok(lengths.collect::<Array>().into())
}
