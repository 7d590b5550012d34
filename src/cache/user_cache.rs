//! A cache object that the caller provides, with the methods `get`, `set`, `delete` and `keys`.

use super::chunked_kv::KvStore;
use super::opfs::{QUOTA_EXCEEDED_ERROR, has_name};
use crate::browser::type_tag::view;
use crate::error::{Error, ErrorKind, Result};
use js_sys::{Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// A longer value was not written by this library.
const MAX_VALUE_BYTES: u32 = 2 << 20;

/// The caller's object. An exception in one of its methods becomes an `Error`. The reader of a value verifies it.
#[derive(Debug, Clone)]
pub(crate) struct UserCache(JsValue);

impl UserCache {
    /// `None` if one of the methods is missing.
    pub(crate) fn new(object: JsValue) -> Option<Self> {
        let has = |name: &&str| Reflect::get(&object, &(*name).into()).is_ok_and(|method| method.is_function());
        let has_all = ["get", "set", "delete", "keys"].iter().all(has);
        has_all.then_some(UserCache(object))
    }

    async fn call(&self, name: &str, arguments: &[JsValue]) -> Result<JsValue> {
        let result = Reflect::get(&self.0, &name.into())
            .and_then(|method| method.dyn_into::<Function>())
            .and_then(|method| method.apply(&self.0, &arguments.iter().collect()));
        match result {
            Ok(value) => JsFuture::from(Promise::resolve(&value)).await,
            Err(thrown) => Err(thrown),
        }
        .map_err(|thrown| method_error(name, &thrown))
    }
}

impl KvStore for UserCache {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.call("get", &[key.into()]).await?;
        Ok(view(&value).filter(|bytes| bytes.length() <= MAX_VALUE_BYTES).map(|bytes| bytes.to_vec()))
    }

    async fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.call("set", &[key.into(), Uint8Array::from(value).into()]).await.map(drop)
    }

    async fn delete(&self, keys: Vec<String>) -> Result<()> {
        for key in keys {
            self.call("delete", &[key.into()]).await?;
        }
        Ok(())
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let keys = self.call("keys", &[]).await?;
        let keys = js_sys::try_iter(&keys).map_err(|thrown| method_error("keys", &thrown))?;
        let mut matching = Vec::new();
        for key in keys.into_iter().flatten() {
            let key = key.map_err(|thrown| method_error("keys", &thrown))?;
            matching.extend(key.as_string().filter(|key| key.starts_with(prefix)));
        }
        Ok(matching)
    }
}

fn method_error(name: &str, thrown: &JsValue) -> Error {
    let text = thrown.dyn_ref::<js_sys::Error>().map(|error| String::from(error.to_string()));
    let text = text.or_else(|| thrown.as_string()).unwrap_or_default();
    let kind = if has_name(thrown, QUOTA_EXCEEDED_ERROR) { ErrorKind::Limit } else { ErrorKind::Io };
    Error::new(kind, format!("{name}() of the `cache` object failed: {text}"))
}
