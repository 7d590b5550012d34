//! Whether a server can be reached at all. A request that fails does not say so: a browser reports an answer without
//! CORS headers, such as the 401 of many servers, by the same exception as a lost connection.
//!
//! A `no-cors` request tells them apart: it succeeds with whatever answer there is, of which nothing can be read; so
//! does one to the page's own origin that does not follow redirects, which may lead to a login elsewhere. HEAD spares
//! the body. The browser's own `fetch` is used also where the caller gave one: what that throws may mean anything.

use crate::browser::timer::pause;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use js_sys::{Function, Object, Promise, Reflect};
use std::pin::pin;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Url};

/// A server that has not answered for so long is out of reach.
const REACH_MS: u64 = 3_000;

/// What is known of the server of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reach {
    /// It answered.
    Answers,
    /// It did not.
    None,
    /// The browser may have hidden its answer: in a page that is isolated from other origins a `no-cors` request fails
    /// where the answer does not allow it, as on a lost connection.
    Unknown,
}

/// Asks the server of a URL for anything.
pub(super) fn reach(url: &str) -> LocalBoxFuture<'_, Reach> {
    try_to_reach(url).boxed_local()
}

async fn try_to_reach(url: &str) -> Reach {
    let Ok(controller) = AbortController::new() else { return Reach::Unknown };
    let asked = match request(url, &controller) {
        Ok(asked) => JsFuture::from(asked),
        Err(_) => return Reach::Unknown, // there is no `fetch`
    };
    let outcome = match future::select(asked, pin!(pause(REACH_MS))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(JsValue::UNDEFINED),
    };
    controller.abort(); // no more of it is wanted
    match outcome {
        Ok(_) => Reach::Answers,
        Err(_) if global("crossOriginIsolated") == JsValue::TRUE && !is_same_origin(url) => Reach::Unknown,
        Err(_) => Reach::None,
    }
}

fn is_same_origin(url: &str) -> bool {
    Url::new(url).is_ok_and(|url| global("origin") == url.origin().as_str())
}

fn global(name: &str) -> JsValue {
    Reflect::get(&js_sys::global(), &name.into()).unwrap_or_default()
}

fn request(url: &str, controller: &AbortController) -> Result<Promise, JsValue> {
    let init = Object::new();
    let (mode, redirect) = if is_same_origin(url) { ("same-origin", "manual") } else { ("no-cors", "follow") };
    let fields =
        [("method", "HEAD"), ("mode", mode), ("redirect", redirect), ("cache", "no-store"), ("credentials", "omit")];
    for (name, value) in fields {
        Reflect::set(&init, &name.into(), &value.into())?;
    }
    Reflect::set(&init, &"signal".into(), &controller.signal())?;
    let fetch: Function = global("fetch").dyn_into()?;
    fetch.call2(&js_sys::global(), &url.into(), &init)?.dyn_into()
}
