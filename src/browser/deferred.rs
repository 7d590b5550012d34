//! Loads the deferred part of the module, which JavaScript fetches and instantiates.

use crate::error::{Error, ErrorKind, Result};
use crate::format::deferred;
use js_sys::{Function, Promise, Reflect};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

thread_local! {
    static LOAD: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Sets the function that loads the part. It returns a promise, which settles when the code can be called.
pub(crate) fn set(load: Function) {
    LOAD.set(Some(load));
    deferred::set_loaded(false);
}

/// Loads the part, unless it is loaded already.
///
/// # Errors
/// `NETWORK` if it cannot be loaded.
pub(crate) async fn load() -> Result<()> {
    let Some(load) = LOAD.with_borrow(Option::clone).filter(|_| !deferred::is_loaded()) else { return Ok(()) };
    let loading = load.call0(&JsValue::UNDEFINED).map(|promise| promise.unchecked_into::<Promise>());
    match loading {
        Ok(promise) => JsFuture::from(promise).await,
        Err(exception) => Err(exception),
    }
    .map_err(|cause| error(&cause))?;
    deferred::set_loaded(true);
    Ok(())
}

fn error(cause: &JsValue) -> Error {
    let message = Reflect::get(cause, &"message".into()).ok().and_then(|message| message.as_string());
    let reason = message.unwrap_or_else(|| "unknown error".to_owned());
    let what = format!("weightstream_deferred.wasm, which has the code for this format, cannot be loaded: {reason}");
    Error::new(ErrorKind::Network, what).advise("Check that it is served beside weightstream_bg.wasm, and try again.")
}
