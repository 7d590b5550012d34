//! Timers, and yielding to the event loop.

use js_sys::{Function, Promise, Reflect};
use std::cell::Cell;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    // These are properties of the global object in pages and workers.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &js_sys::Function, delay_ms: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: &JsValue);
    /// Milliseconds since the start of the page or the worker.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(crate) fn now_ms() -> f64;
}

/// Time after which [`yield_to_event_loop`] yields. Users notice tasks of 50 ms, and a task may exceed this limit by
/// the digest of one segment.
const MAX_TASK_MS: f64 = 12.0;

thread_local! {
    /// Time of the last yield, in milliseconds since 1970.
    static LAST_YIELD_MS: Cell<f64> = const { Cell::new(0.0) };
    /// The function of Deno that releases a timer, which is a number there.
    static UNREF_IN_DENO: Option<Function> =
        Reflect::get(&js_sys::global(), &"Deno".into()).ok().and_then(|deno| method(&deno, "unrefTimer"));
}

/// Yields to the event loop if the last yield was more than [`MAX_TASK_MS`] ago, so that the page stays responsive. If
/// bytes arrive faster than they are digested, each read completes immediately, and the following code would run in the
/// same task.
pub(crate) async fn yield_to_event_loop() {
    if js_sys::Date::now() - LAST_YIELD_MS.get() < MAX_TASK_MS {
        return;
    }
    match scheduler_yield() {
        Some(turn) => drop(JsFuture::from(turn).await),
        None => pause(0).await,
    }
    LAST_YIELD_MS.set(js_sys::Date::now());
}

/// Calls `scheduler.yield()` if the browser supports it. Unlike a timer, it has no minimum delay.
fn scheduler_yield() -> Option<Promise> {
    let scheduler = Reflect::get(&js_sys::global(), &"scheduler".into()).ok()?;
    let function = Reflect::get(&scheduler, &"yield".into()).ok()?.dyn_into::<Function>().ok()?;
    function.call0(&scheduler).ok()?.dyn_into::<Promise>().ok()
}

/// Waits for `delay_ms` milliseconds. Dropping the future clears the timer. The timer does not keep a program running:
/// Node.js, Deno and Bun end when only such timers are left. A call that is pending keeps it running itself.
pub(crate) async fn pause(delay_ms: u64) {
    let (timer, elapsed) = Timer::start(delay_ms);
    timer.release();
    drop(JsFuture::from(elapsed).await); // a timer's promise does not reject
}

struct Timer {
    timer: JsValue,
    /// Resolves the promise of the timer.
    resolve: Option<Function>,
}

impl Timer {
    /// Starts a timer. The promise resolves when it has elapsed, or is no longer awaited.
    fn start(delay_ms: u64) -> (Timer, Promise) {
        let mut timer = Timer { timer: JsValue::UNDEFINED, resolve: None };
        let elapsed = Promise::new(&mut |resolve, _| {
            timer.timer = set_timeout(&resolve, delay_ms as f64);
            timer.resolve = Some(resolve);
        });
        (timer, elapsed)
    }

    /// Lets the program end before the timer has elapsed. The timers of browsers are numbers, and need no release.
    fn release(&self) {
        if self.timer.is_object() {
            if let Some(unref) = method(&self.timer, "unref") {
                unref.call0(&self.timer).ok(); // a method of a timer
            }
        } else if let Some(unref) = UNREF_IN_DENO.with(Option::clone) {
            unref.call1(&JsValue::UNDEFINED, &self.timer).ok();
        }
    }
}

fn method(object: &JsValue, name: &str) -> Option<Function> {
    Reflect::get(object, &name.into()).ok()?.dyn_into().ok()
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.timer);
        // A promise that never settles would keep the future that has awaited it.
        if let Some(resolve) = &self.resolve {
            resolve.call0(&JsValue::UNDEFINED).ok(); // resolving a promise does not throw
        }
    }
}
