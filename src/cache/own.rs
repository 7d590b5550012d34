//! A cache that the caller gave: an object with `get`, `set`, `delete` and `keys`.

use super::keyed::KeyValues;
use crate::browser::type_tag::view;
use crate::error::{Error, ErrorKind, Result};
use js_sys::{Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// What is longer was not kept by us.
const MAX_VALUE_BYTES: u32 = 2 << 20;

/// The caller's object. Whatever it throws is an error here, and whatever it gives is checked by whoever reads it.
#[derive(Debug, Clone)]
pub(crate) struct Own(JsValue);

impl Own {
    /// `None` where something is missing.
    pub(crate) fn new(object: JsValue) -> Option<Self> {
        let has = |name: &&str| Reflect::get(&object, &(*name).into()).is_ok_and(|method| method.is_function());
        let is_one = ["get", "set", "delete", "keys"].iter().all(has);
        is_one.then_some(Own(object))
    }

    async fn call(&self, name: &str, arguments: &[JsValue]) -> Result<JsValue> {
        let called = Reflect::get(&self.0, &name.into())
            .and_then(|method| method.dyn_into::<Function>())
            .and_then(|method| method.apply(&self.0, &arguments.iter().collect()));
        match called {
            Ok(given) => JsFuture::from(Promise::resolve(&given)).await,
            Err(thrown) => Err(thrown),
        }
        .map_err(|thrown| failed(name, &thrown))
    }
}

impl KeyValues for Own {
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
        let keys = js_sys::try_iter(&keys).map_err(|thrown| failed("keys", &thrown))?;
        let mut known = Vec::new();
        for key in keys.into_iter().flatten() {
            let key = key.map_err(|thrown| failed("keys", &thrown))?;
            known.extend(key.as_string().filter(|key| key.starts_with(prefix)));
        }
        Ok(known)
    }
}

fn failed(name: &str, thrown: &JsValue) -> Error {
    let text = thrown.dyn_ref::<js_sys::Error>().map(|error| String::from(error.to_string()));
    let text = text.or_else(|| thrown.as_string()).unwrap_or_default();
    Error::new(ErrorKind::Io, format!("{name}() of the cache that was given failed: {text}"))
}
