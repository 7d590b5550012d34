//! How much memory tensors may take that are on their way or wait to be asked for.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Memory that several runs share. A run that finds no room for its next tensor stops reading, and so does its server.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    max_bytes: u64,
    used_bytes: Cell<u64>,
    /// The tensors that have room.
    begun: RefCell<HashSet<String>>,
    wakers: RefCell<Vec<Waker>>,
}

/// MemoryBudget for one tensor, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Rc<MemoryBudget>,
    name: String,
    bytes: u64,
}

impl MemoryBudget {
    pub(crate) fn new(max_bytes: u64) -> Rc<Self> {
        let (used_bytes, begun, wakers) = Default::default();
        Rc::new(MemoryBudget { max_bytes, used_bytes, begun, wakers })
    }

    /// Takes room, whether there is so much or not.
    pub(crate) fn take(self: &Rc<Self>, name: &str, bytes: u64) -> Permit {
        self.used_bytes.set(self.used_bytes.get().saturating_add(bytes));
        self.begun.borrow_mut().insert(name.to_owned());
        Permit { budget: Rc::clone(self), name: name.to_owned(), bytes }
    }

    /// Waits until `bytes` fit, and says whether it had to. A tensor that is larger than all the room may come alone;
    /// and nobody waits while `is_needed` says that what comes behind is needed to finish what was begun.
    pub(crate) async fn wait(&self, bytes: u64, is_needed: impl Fn() -> bool) -> bool {
        let mut has_waited = false;
        poll_fn(|context| {
            let used = self.used_bytes.get();
            if used == 0 || used.saturating_add(bytes) <= self.max_bytes || is_needed() {
                return Poll::Ready(());
            }
            has_waited = true;
            self.wake_later(context)
        })
        .await;
        has_waited
    }

    /// Whether the tensor of this name has room.
    pub(crate) fn has_begun(&self, name: &str) -> bool {
        self.begun.borrow().contains(name)
    }

    fn wake_later(&self, context: &Context<'_>) -> Poll<()> {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Lets those who wait look again.
    pub(crate) fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.used_bytes.set(self.budget.used_bytes.get().saturating_sub(self.bytes));
        self.budget.begun.borrow_mut().remove(&self.name);
        self.budget.wake();
    }
}
