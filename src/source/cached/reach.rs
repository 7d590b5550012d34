//! Whether a server can be reached at all. A request that fails does not say so: a browser reports an answer without
//! CORS headers, such as the 401 of many servers, by the same exception as a lost connection.
//!
//! A `no-cors` request tells them apart: it succeeds with whatever answer there is, of which nothing can be read. HEAD
//! spares the body. The browser's own `fetch` is used also where the caller gave one: what that throws may mean anything.

use crate::source::timer::pause;
use futures::future::{self, Either};
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
    /// The browser may have hidden its answer.
    Unknown,
}

/// Asks the server of a URL for anything.
pub(super) async fn reach(url: &str) -> Reach {
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
        Err(_) if hides_answers_of(url) => Reach::Unknown,
        Err(_) => Reach::None,
    }
}

/// Whether this page or worker gets no `no-cors` answer from there without the server's permission: in one that is
/// isolated from other origins such an answer fails as a lost connection does.
fn hides_answers_of(url: &str) -> bool {
    let global = |name: &str| Reflect::get(&js_sys::global(), &name.into()).unwrap_or_default();
    let is_same_origin = Url::new(url).is_ok_and(|url| global("origin") == url.origin().as_str());
    global("crossOriginIsolated") == JsValue::TRUE && !is_same_origin
}

fn request(url: &str, controller: &AbortController) -> Result<Promise, JsValue> {
    let init = Object::new();
    for (name, value) in [("method", "HEAD"), ("mode", "no-cors"), ("cache", "no-store"), ("credentials", "omit")] {
        Reflect::set(&init, &name.into(), &value.into())?;
    }
    Reflect::set(&init, &"signal".into(), &controller.signal())?;
    let global = js_sys::global();
    let fetch: Function = Reflect::get(&global, &"fetch".into())?.dyn_into()?;
    fetch.call2(&global, &url.into(), &init)?.dyn_into()
}
