//! What a loader read before its cache was open, and the cache does not have yet. Whoever lists, deletes or reads
//! cached files waits for it.

use futures::future::{FutureExt, LocalBoxFuture};
use js_sys::{Function, Promise};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::{JsFuture, spawn_local};

/// Opens the cache, and stores in it what it has missed.
type Task = LocalBoxFuture<'static, ()>;

/// A task of its own runs it: a consumer that is paused must not delay others.
struct Storing {
    task: Cell<Option<Task>>,
    /// Resolves when the task has ended.
    stored: Promise,
    resolve: Cell<Option<Function>>,
}

thread_local! {
    static STORING: RefCell<Option<Rc<Storing>>> = const { RefCell::new(None) };
}

/// Sets the task after which the cache has everything. There is at most one in a page: see [`may_begin`].
pub(crate) fn begin(task: Task) {
    let resolve = Cell::new(None);
    let stored = Promise::new(&mut |resolve_promise, _| resolve.set(Some(resolve_promise)));
    STORING.set(Some(Rc::new(Storing { task: Cell::new(Some(task)), stored, resolve })));
}

/// Whether there was no such task yet.
pub(crate) fn may_begin() -> bool {
    STORING.with_borrow(Option::is_none)
}

/// Starts the task, unless something else has.
pub(crate) fn start() {
    let Some(storing) = STORING.with_borrow(Option::clone) else { return };
    if let Some(task) = storing.task.take() {
        spawn_local(async move {
            task.await;
            storing.resolve.take().map(|resolve| resolve.call0(&JsValue::UNDEFINED)); // it does not throw
        });
    }
}

/// Waits until the cache has everything.
#[inline(never)]
pub(crate) fn stored() -> LocalBoxFuture<'static, ()> {
    start();
    let storing = STORING.with_borrow(Option::clone);
    let stored = async move {
        if let Some(storing) = storing {
            JsFuture::from(storing.stored.clone()).await.ok(); // it is never rejected
        }
    };
    stored.boxed_local()
}
