//! Loads a deferred part of the module, which JavaScript fetches and instantiates.

use crate::deferred::{self, Code};
use crate::error::{Error, ErrorKind, Result};
use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::{Function, Promise, Reflect};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

thread_local! {
    static LOAD: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Sets the function that loads the part of a number. It returns a promise, which settles when the code can be called.
pub(crate) fn set(load: Function) {
    LOAD.set(Some(load));
    for code in Code::ALL {
        deferred::set_loaded(code, false);
    }
}

/// Loads a part, unless it is loaded already.
///
/// # Errors
/// `NETWORK` if it cannot be loaded.
pub(crate) async fn load(code: Code) -> Result<()> {
    if let Some(base) = code.base() {
        load_alone(base).await?;
    }
    load_alone(code).await
}

/// Loads the code for the digests that the caller has just read.
///
/// # Errors
/// Those of [`load`].
pub(crate) fn load_expected() -> LocalBoxFuture<'static, Result<()>> {
    let code = deferred::expected(); // now: later, it would be that of somebody else
    async move { if let Some(code) = code { load(code).await } else { Ok(()) } }.boxed_local()
}

async fn load_alone(code: Code) -> Result<()> {
    let Some(load) = LOAD.with_borrow(Option::clone).filter(|_| !deferred::is_loaded(code)) else { return Ok(()) };
    let loading = load.call1(&JsValue::UNDEFINED, &(code as u32).into());
    match loading.map(|promise| promise.unchecked_into::<Promise>()) {
        Ok(promise) => JsFuture::from(promise).await,
        Err(exception) => Err(exception),
    }
    .map_err(|cause| error(code, &cause))?;
    deferred::set_loaded(code, true);
    Ok(())
}

fn error(code: Code, cause: &JsValue) -> Error {
    let message = Reflect::get(cause, &"message".into()).ok().and_then(|message| message.as_string());
    let reason = message.unwrap_or_else(|| "unknown error".to_owned());
    let file = match code {
        Code::Formats => "deferred",
        Code::Cache => "cache",
        Code::Extras => "extras",
        Code::Manifests => "manifests",
        Code::Workers => "workers",
        Code::Databases => "databases",
        Code::Containers => "containers",
        Code::Quantization => "quantization",
        Code::Calls => "calls",
        Code::Blake3 => "blake3",
        Code::CachedFiles => "cached",
        Code::Mirrors => "mirrors",
    };
    Error::new(
        ErrorKind::Network,
        ["weightstream_", file, ".wasm, which has code for this call, cannot be loaded: ", &reason].concat(),
    )
    .advise("Check that it is served beside weightstream_main.wasm, and try again.")
}
