//! A cache object that the caller provides, with the methods `get`, `set`, `delete` and `keys`.

use super::chunked_kv::KvStore;
use super::opfs::{QUOTA_EXCEEDED_ERROR, has_name};
use crate::browser::type_tag::{tag, view};
use crate::error::{Error, ErrorKind, Result};
use js_sys::{Function, Promise, Reflect, Uint8Array};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// A longer value was not written by this library.
const MAX_VALUE_BYTES: u32 = 2 << 20;

/// The caller's object. An exception in one of its methods becomes an `Error`, as does an answer of another type. The
/// reader of a value verifies it.
#[derive(Clone)]
pub(crate) struct UserCache {
    object: JsValue,
    observer: Option<Observer>,
}

/// Receives the errors of values that are not those that were stored. They do not fail a read: the bytes are fetched
/// again.
type Observer = Rc<dyn Fn(&Error)>;

impl UserCache {
    /// `None` if one of the methods is missing.
    pub(crate) fn new(object: JsValue) -> Option<Self> {
        let has = |name: &&str| Reflect::get(&object, &(*name).into()).is_ok_and(|method| method.is_function());
        let has_all = ["get", "set", "delete", "keys"].iter().all(has);
        has_all.then_some(UserCache { object, observer: None })
    }

    pub(crate) fn with_observer(self, observer: Observer) -> Self {
        UserCache { observer: Some(observer), ..self }
    }

    async fn call(&self, name: &str, arguments: &[JsValue]) -> Result<JsValue> {
        let result = Reflect::get(&self.object, &name.into())
            .and_then(|method| method.dyn_into::<Function>())
            .and_then(|method| method.apply(&self.object, &arguments.iter().collect()));
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
        if value.is_null() || value.is_undefined() {
            return Ok(None);
        }
        match view(&value) {
            Some(bytes) if bytes.length() <= MAX_VALUE_BYTES => Ok(Some(bytes.to_vec())),
            Some(bytes) => Err(wrong_answer("get", &format!("{} bytes, more than were stored", bytes.length()))),
            None => Err(wrong_answer("get", &format!("{}, not an ArrayBuffer or a view of one", tag(&value)))),
        }
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
        let keys = self.call("keys", &[prefix.into()]).await?; // a storage may list only these
        let keys = js_sys::try_iter(&keys).map_err(|thrown| method_error("keys", &thrown))?;
        let mut matching = Vec::new();
        let keys = keys.ok_or_else(|| wrong_answer("keys", "a value that is not iterable"))?;
        for key in keys {
            let key = key.map_err(|thrown| method_error("keys", &thrown))?;
            matching.extend(key.as_string().filter(|key| key.starts_with(prefix)));
        }
        Ok(matching)
    }

    fn note_wrong_value(&self, key: &str) {
        if let Some(observer) = &self.observer {
            observer(&wrong_answer("get", &format!("other bytes than were stored for {key}")));
        }
    }
}

impl std::fmt::Debug for UserCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UserCache").field(&self.object).finish()
    }
}

fn wrong_answer(name: &str, answer: &str) -> Error {
    Error::new(ErrorKind::Io, format!("{name}() of the `cache` object returned {answer}"))
}

fn method_error(name: &str, thrown: &JsValue) -> Error {
    let text = thrown.dyn_ref::<js_sys::Error>().map(|error| String::from(error.to_string()));
    let text = text.or_else(|| thrown.as_string()).unwrap_or_default();
    let kind = if has_name(thrown, QUOTA_EXCEEDED_ERROR) { ErrorKind::Limit } else { ErrorKind::Io };
    // Those of the package say themselves what has failed.
    match text.strip_prefix("LoadError: ") {
        Some(what) => Error::new(kind, what.trim_end_matches('.')),
        None => Error::new(kind, format!("{name}() of the `cache` object failed: {text}")),
    }
}
