//! Checks whether a server is reachable. A failed request does not show this: a browser reports a response without CORS
//! headers, such as the 401 of many servers, by the same exception as a lost connection.
//!
//! A `no-cors` request distinguishes the two cases: it succeeds with an opaque response for any status. A same-origin
//! request that does not follow redirects does so, too; redirects may lead to a login page at another origin. The
//! method is HEAD, so that no body is sent. The check uses the browser's own `fetch` even if the caller provides one,
//! because exceptions of the caller's function may have any meaning.

use crate::browser::timer::pause;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use js_sys::{Function, Object, Promise, Reflect};
use std::pin::pin;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Url};

/// Time limit for a response.
const PROBE_TIMEOUT_MS: u64 = 3_000;

/// The result of the check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reachability {
    /// The server responded.
    Reachable,
    /// The server did not respond.
    Unreachable,
    /// The browser may have hidden the response. In a cross-origin isolated page, a `no-cors` request fails if the
    /// response does not opt in, as it does for a lost connection.
    Unknown,
}

/// Checks whether the server of a URL is reachable.
pub(super) fn probe(url: &str) -> LocalBoxFuture<'_, Reachability> {
    send_probe(url).boxed_local()
}

async fn send_probe(url: &str) -> Reachability {
    let Ok(controller) = AbortController::new() else { return Reachability::Unknown };
    let response = match request(url, &controller) {
        Ok(response) => JsFuture::from(response),
        Err(_) => return Reachability::Unknown, // there is no `fetch`
    };
    let outcome = match future::select(response, pin!(pause(PROBE_TIMEOUT_MS))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => {
            controller.abort();
            Err(JsValue::UNDEFINED)
        }
    };
    match outcome {
        Ok(_) => Reachability::Reachable,
        Err(_) if global("crossOriginIsolated") == JsValue::TRUE && !is_same_origin(url) => Reachability::Unknown,
        Err(_) => Reachability::Unreachable,
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
