//! What a loader read before its cache was open, and the cache does not have yet. Whoever lists, deletes or reads
//! cached files waits for it.

use futures::future::LocalBoxFuture;
use futures::lock::Mutex;
use std::cell::RefCell;
use std::rc::Rc;

/// Opens the cache, and stores in it what it has missed.
type Storing = LocalBoxFuture<'static, ()>;

thread_local! {
    static STORING: RefCell<Option<Rc<Mutex<Option<Storing>>>>> = const { RefCell::new(None) };
}

/// Sets the task after which the cache has everything. There is at most one in a page: see [`may_begin`].
pub(crate) fn begin(storing: Storing) {
    STORING.set(Some(Rc::new(Mutex::new(Some(storing)))));
}

/// Whether there was no such task yet.
pub(crate) fn may_begin() -> bool {
    STORING.with_borrow(Option::is_none)
}

/// Waits until the cache has everything.
pub(crate) async fn stored() {
    let Some(storing) = STORING.with_borrow(Option::clone) else { return };
    let mut storing = storing.lock().await; // the first caller runs the task
    if let Some(task) = &mut *storing {
        task.await;
    }
    *storing = None;
}
