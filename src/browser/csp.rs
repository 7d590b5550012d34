//! Whether the page's Content-Security-Policy forbids a request. The exception of `fetch` does not say so: it is that
//! of a lost connection.

use js_sys::{Function, Promise};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

thread_local! {
    static IS_FORBIDDEN: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Sets the function that resolves to whether a request for a URL has violated the policy.
pub(crate) fn set(is_forbidden: Function) {
    IS_FORBIDDEN.set(Some(is_forbidden));
}

/// Whether a request for this URL has violated the policy, so that repeating it cannot help.
pub(crate) async fn forbids(url: &str) -> bool {
    let Some(is_forbidden) = IS_FORBIDDEN.with_borrow(Option::clone) else { return false };
    let Ok(answer) = is_forbidden.call1(&JsValue::UNDEFINED, &url.into()) else { return false };
    JsFuture::from(answer.unchecked_into::<Promise>()).await.is_ok_and(|answer| answer == true)
}
