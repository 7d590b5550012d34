//! Opens what the option `adapters` names. The code is deferred.

use super::options;
use super::sources::Sources;
use crate::adapter::{Adapter, AdapterConfig};
use crate::error::Result;
use crate::loader::Loader;
use crate::source::web::WebSource;
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::Array;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// Adds the adapters to a model that is being opened.
#[inline(never)]
pub(super) fn add(
    opening: LocalBoxFuture<'static, Result<Loader<WebSource>>>,
    adapters: Array,
    sources: Rc<Sources>,
) -> LocalBoxFuture<'static, Result<Loader<WebSource>>> {
    let opening = async move {
        let loader = opening.await?;
        let mut opened = Vec::new();
        for adapter in adapters {
            let source = options::field(&adapter, "source").unwrap_or_default();
            opened.push((sources.open(&source).await?, settings(&source, &adapter)?));
        }
        loader.with_adapters(opened).await
    };
    opening.boxed_local()
}

fn settings(source: &JsValue, adapter: &JsValue) -> Result<Adapter> {
    let mut settings = Adapter::new(source.as_string().unwrap_or_default());
    if let Some(scale) = options::field(adapter, "scale").and_then(|scale| scale.as_f64()) {
        settings = settings.scale(scale as f32);
    }
    if let Some(json) = options::field(adapter, "config").and_then(|config| config.as_string()) {
        settings = settings.config(AdapterConfig::from_json(json.as_bytes())?);
    }
    Ok(settings)
}
