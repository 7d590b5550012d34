//! Limits the memory of tensors that are being loaded or wait to be requested.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Memory that several runs share. A run without memory for its next tensor stops reading, which applies backpressure
/// to the server.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    max_bytes: u64,
    used_bytes: Cell<u64>,
    /// The names of the tensors that hold a permit.
    admitted: RefCell<HashSet<String>>,
    wakers: RefCell<Vec<Waker>>,
}

/// The reservation of memory for one tensor. Dropping it releases the memory.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Rc<MemoryBudget>,
    name: String,
    bytes: u64,
}

impl MemoryBudget {
    pub(crate) fn new(max_bytes: u64) -> Rc<Self> {
        let (used_bytes, admitted, wakers) = Default::default();
        Rc::new(MemoryBudget { max_bytes, used_bytes, admitted, wakers })
    }

    /// Reserves memory without waiting, even if the budget is exceeded.
    pub(crate) fn take(self: &Rc<Self>, name: &str, bytes: u64) -> Permit {
        self.used_bytes.set(self.used_bytes.get().saturating_add(bytes));
        self.admitted.borrow_mut().insert(name.to_owned());
        Permit { budget: Rc::clone(self), name: name.to_owned(), bytes }
    }

    /// Waits until `bytes` fit into the budget. Returns whether it had to wait. A tensor that is larger than the budget
    /// is admitted when no other memory is in use. The wait ends early if `is_needed` returns true, for example because
    /// the bytes are needed to complete tensors that already hold memory.
    pub(crate) async fn wait(&self, bytes: u64, is_needed: impl Fn() -> bool) -> bool {
        let mut has_waited = false;
        poll_fn(|context| {
            let used = self.used_bytes.get();
            if used == 0 || used.saturating_add(bytes) <= self.max_bytes || is_needed() {
                return Poll::Ready(());
            }
            has_waited = true;
            self.register_waker(context)
        })
        .await;
        has_waited
    }

    /// Whether the tensor of this name holds a permit.
    pub(crate) fn is_admitted(&self, name: &str) -> bool {
        self.admitted.borrow().contains(name)
    }

    fn register_waker(&self, context: &Context<'_>) -> Poll<()> {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Wakes all waiting tasks, which check the budget again.
    pub(crate) fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.used_bytes.set(self.budget.used_bytes.get().saturating_sub(self.bytes));
        self.budget.admitted.borrow_mut().remove(&self.name);
        self.budget.wake();
    }
}
