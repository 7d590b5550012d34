//! The warnings about a model. The code is deferred.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::JsLoader;
use super::cancel::{self, CloseSignal};
use super::promise::{Stop, deferred_promise};
use crate::deferred::Code;
use crate::loader::Loader;
use crate::source::web::WebSource;
use futures::future::FutureExt;
use js_sys::{Array, Promise};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use web_sys::AbortSignal;

#[wasm_bindgen(js_class = Loader)]
impl JsLoader {
    /// Resolves to the warnings about the model, each with the name of its file.
    pub fn warnings(&self, signal: Option<AbortSignal>) -> Promise {
        let (loader, close_signal) = (self.loader.borrow().clone(), self.close_signal.clone());
        let stop = Stop { signal: signal.clone(), close_signal: close_signal.clone() };
        deferred_promise(Code::Extras, stop, move || listed(loader, signal, close_signal))
    }
}

async fn listed(
    loader: Option<Rc<Loader<WebSource>>>,
    signal: Option<AbortSignal>,
    close_signal: CloseSignal,
) -> Result<JsValue, JsValue> {
    let listing = async move {
        let warnings = loader.ok_or_else(cancel::closed_error)?.warnings().await?;
        let texts = warnings.iter().map(|(file, warning)| JsValue::from(format!("{file}: {warning}")));
        Ok(JsValue::from(texts.collect::<Array>()))
    };
    cancel::run_until_stopped(signal, &close_signal, listing.boxed_local()).await
}
