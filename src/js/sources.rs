//! Opens the sources of a model: its own, and those of its adapters.

use crate::cache::CacheOption;
use crate::error::Result;
use crate::source::cached::{KeyFunction, Report};
use crate::source::fetch::Client;
use crate::source::mirrors::Mirrors;
use crate::source::web::WebSource;
use js_sys::Function;
use std::cell::Cell;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// What the sources of a model have in common. Headers and credentials go only to the origin of the model.
pub(super) struct Sources {
    pub(super) client: Rc<Client>,
    pub(super) cache: Option<CacheOption>,
    pub(super) key_function: KeyFunction,
    /// Set until the source of the model is opened, if nothing is cached. Releases the lock of the download.
    pub(super) release_lock: Cell<Option<Function>>,
    pub(super) report: Rc<Report>,
    /// The object of `cache/cross_origin_storage.js`.
    pub(super) cross_origin: Option<JsValue>,
    /// Set until the source of the model is opened. Adapters have none.
    pub(super) mirrors: Cell<Option<Rc<Mirrors>>>,
}

impl Sources {
    /// Opens the source that a value represents.
    pub(super) async fn open(&self, value: &JsValue) -> Result<WebSource> {
        let mut source = WebSource::new(value, Rc::clone(&self.client))?.into_root().await?;
        if let Some(mirrors) = self.mirrors.take() {
            source = source.with_mirrors(&mirrors)?;
        }
        let source = match &self.cache {
            Some(choice) => {
                let (choice, key_function) = (choice.clone(), self.key_function.clone());
                let report = Rc::clone(&self.report);
                match self.release_lock.take() {
                    Some(release) => source.with_empty_cache(choice, key_function, report, &release).await?,
                    None => source.with_cache(choice, key_function, report).await?,
                }
            }
            None => source,
        };
        Ok(source.with_cross_origin(self.cross_origin.as_ref()))
    }
}
