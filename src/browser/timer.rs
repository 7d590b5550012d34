//! Time in the browser: waiting, and letting it do its own work.

use js_sys::{Function, Promise, Reflect};
use std::cell::Cell;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    // Pages and workers both have them on the global object.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &js_sys::Function, delay_ms: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
    /// Milliseconds since the page or the worker began.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(crate) fn now_ms() -> f64;
}

/// After so long the page gets its turn: a task of 50 ms is one that people notice, and what comes on top of this is
/// one segment's digest.
const MAX_TASK_MS: f64 = 12.0;

thread_local! {
    /// When the page last had its turn, in milliseconds since 1970.
    static LAST_TURN_MS: Cell<f64> = const { Cell::new(0.0) };
}

/// Lets the page draw and answer, if it could not for long. Where bytes come faster than they are digested, each read
/// is done at once, and what follows runs on in the same task.
pub(crate) async fn give_turn() {
    if js_sys::Date::now() - LAST_TURN_MS.get() < MAX_TASK_MS {
        return;
    }
    match scheduler_yield() {
        Some(turn) => drop(JsFuture::from(turn).await),
        None => pause(0).await,
    }
    LAST_TURN_MS.set(js_sys::Date::now());
}

/// `scheduler.yield()`, where there is one: unlike a timer it has no least delay.
fn scheduler_yield() -> Option<Promise> {
    let scheduler = Reflect::get(&js_sys::global(), &"scheduler".into()).ok()?;
    let function = Reflect::get(&scheduler, &"yield".into()).ok()?.dyn_into::<Function>().ok()?;
    function.call0(&scheduler).ok()?.dyn_into::<Promise>().ok()
}

/// Waits; dropping the future clears the timer.
pub(crate) async fn pause(delay_ms: u64) {
    let mut timer = Timer(JsValue::UNDEFINED);
    let elapsed = Promise::new(&mut |resolve, _| timer.0 = set_timeout(&resolve, delay_ms as f64));
    drop(JsFuture::from(elapsed).await); // a timer's promise does not reject
}

struct Timer(JsValue);

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.0);
    }
}
