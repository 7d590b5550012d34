//! The lease of a download: while a page holds it, other loads of the file wait for the bytes that the page caches.
//!
//! A download that is paused, such as that of an iterator whose consumer waits for something else, must not delay other
//! loads. Its lease ends, and is acquired again when the download goes on.

use crate::browser::lock::Lock;
use crate::browser::timer::pause;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Waker;
use wasm_bindgen_futures::spawn_local;

/// A download is paused if nothing asks for its bytes for one to two of these intervals.
const CHECK_INTERVAL_MS: u64 = 250;

/// A lease that ends when its download is paused, or when this value is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    lock: RefCell<Option<Lock>>,
    /// Whether the bytes of the download were asked for since the last check.
    is_active: Cell<bool>,
    /// Wakes those that wait for bytes.
    wakers: RefCell<Vec<Waker>>,
}

impl Lease {
    pub(super) fn new(lock: Lock) -> Rc<Self> {
        let (lock, is_active) = (RefCell::new(Some(lock)), Cell::new(true));
        let lease = Rc::new(Lease { lock, is_active, wakers: RefCell::default() });
        spawn_local(end_when_paused(Rc::downgrade(&lease)));
        lease
    }

    pub(super) fn is_held(&self) -> bool {
        self.lock.borrow().is_some()
    }

    /// Whether the download has gone on since the last call. If not, ends the lease. A consumer that still waits for
    /// bytes polls again when it is woken, and so shows this until the next call.
    fn check(&self) -> bool {
        if self.is_active.replace(false) {
            for waker in self.wakers.take() {
                waker.wake();
            }
        } else {
            self.lock.take();
        }
        self.is_held()
    }
}

/// Waits for bytes of the download that has this lease.
pub(super) async fn active<T>(lease: Option<&Rc<Lease>>, bytes: impl Future<Output = T>) -> T {
    let Some(lease) = lease.map(Rc::clone) else { return bytes.await };
    let mut bytes = pin!(bytes);
    poll_fn(|context| {
        lease.is_active.set(true);
        let mut wakers = lease.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        drop(wakers);
        bytes.as_mut().poll(context)
    })
    .await
}

async fn end_when_paused(lease: Weak<Lease>) {
    loop {
        pause(CHECK_INTERVAL_MS).await;
        if !lease.upgrade().is_some_and(|lease| lease.check()) {
            return;
        }
    }
}
