//! Opens what the option `adapters` names. The code is deferred.

use super::options;
use crate::adapter::{Adapter, AdapterConfig};
use crate::cache::CacheOption;
use crate::error::Result;
use crate::loader::Loader;
use crate::source::cached::{KeyFunction, Report};
use crate::source::fetch::Client;
use crate::source::web::WebSource;
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::Array;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// What adapters have in common with their model. Headers and credentials go only to the origin of the model.
pub(super) struct Sharing {
    pub(super) client: Client,
    pub(super) cache: Option<CacheOption>,
    pub(super) key_function: KeyFunction,
    pub(super) report: Rc<Report>,
}

/// Adds the adapters to an open model.
#[inline(never)]
pub(super) fn add(
    loader: Loader<WebSource>,
    adapters: Array,
    sharing: Sharing,
) -> LocalBoxFuture<'static, Result<Loader<WebSource>>> {
    let opening = async move {
        let mut opened = Vec::new();
        for adapter in adapters {
            let source = options::field(&adapter, "source").unwrap_or_default();
            opened.push((sharing.open(&source).await?, settings(&source, &adapter)?));
        }
        loader.with_adapters(opened).await
    };
    opening.boxed_local()
}

impl Sharing {
    async fn open(&self, source: &JsValue) -> Result<WebSource> {
        let is_url = source.is_string();
        let source = WebSource::new(source, self.client.clone())?.into_root().await?;
        match self.cache.clone().filter(|_| is_url) {
            Some(choice) => source.with_cache(choice, self.key_function.clone(), Rc::clone(&self.report)).await,
            None => Ok(source),
        }
    }
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
