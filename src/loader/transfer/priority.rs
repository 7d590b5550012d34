//! Who goes first: what is prefetched gives way to what somebody waits for.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The loads that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Priority {
    demands: Cell<usize>,
    /// Tensors that are being prefetched and were asked for meanwhile.
    joined: RefCell<HashSet<String>>,
    wakers: RefCell<Vec<Waker>>,
}

/// Somebody waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct Demand {
    priority: Rc<Priority>,
    /// The tensor, where it is being prefetched already.
    joined: Option<String>,
}

impl Priority {
    /// Everything that is prefetched gives way.
    pub(crate) fn demand(self: &Rc<Self>) -> Demand {
        self.demands.set(self.demands.get() + 1);
        Demand { priority: Rc::clone(self), joined: None }
    }

    /// Everything that is prefetched gives way to this tensor of it.
    pub(crate) fn join(self: &Rc<Self>, tensor: &str) -> Demand {
        self.joined.borrow_mut().insert(tensor.to_owned());
        self.wake();
        let mut demand = self.demand();
        demand.joined = Some(tensor.to_owned());
        demand
    }

    /// Waits while somebody waits for anything but `tensor`, which is what is read; says whether it had to.
    pub(crate) async fn yield_to_demands(&self, tensor: Option<&str>) -> bool {
        let mut has_waited = false;
        poll_fn(|context| {
            if self.demands.get() == 0 || tensor.is_some_and(|tensor| self.joined.borrow().contains(tensor)) {
                return Poll::Ready(());
            }
            has_waited = true;
            let mut wakers = self.wakers.borrow_mut();
            if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
        has_waited
    }

    fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        self.priority.demands.set(self.priority.demands.get().saturating_sub(1));
        if let Some(tensor) = &self.joined {
            self.priority.joined.borrow_mut().remove(tensor);
        }
        self.priority.wake();
    }
}

/// What tells a prefetching operation that others go first, and what need not be read any more.
pub(crate) struct Prefetching {
    pub(crate) priority: Rc<Priority>,
    /// Whether a tensor is still to be prefetched: not once somebody has asked for it and loads it.
    pub(crate) is_wanted: Box<dyn Fn(&str) -> bool>,
}

/// One connection that prefetches.
pub(crate) struct PrefetchPriority {
    ahead: Rc<Prefetching>,
    /// The tensor that it reads.
    tensor: RefCell<Option<String>>,
    has_waited: Cell<bool>,
}

impl PrefetchPriority {
    pub(crate) fn new(ahead: Rc<Prefetching>) -> Self {
        PrefetchPriority { ahead, tensor: RefCell::default(), has_waited: Cell::new(false) }
    }

    pub(crate) fn reads(&self, tensor: &str) {
        *self.tensor.borrow_mut() = Some(tensor.to_owned());
    }

    /// As [`Priority::yield_to_demands`].
    pub(crate) async fn yield_to_demands(&self) {
        let tensor = self.tensor.borrow().clone();
        if self.ahead.priority.yield_to_demands(tensor.as_deref()).await {
            self.has_waited.set(true);
        }
    }

    /// Whether it had to wait since this was last asked.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited.take()
    }
}
