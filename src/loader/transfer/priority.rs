//! Priorities: prefetching pauses while a caller waits for a tensor.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Counts the demands: loads that a caller waits for.
#[derive(Debug, Default)]
pub(crate) struct Priority {
    demands: Cell<usize>,
    /// Tensors that were requested while they were being prefetched.
    joined: RefCell<HashSet<String>>,
    wakers: RefCell<Vec<Waker>>,
}

/// A caller that waits for a load, until this is dropped.
#[derive(Debug)]
pub(crate) struct Demand {
    priority: Rc<Priority>,
    /// The tensor, if it is being prefetched already.
    joined: Option<String>,
}

impl Priority {
    /// Registers a demand. All prefetching pauses until it is dropped.
    pub(crate) fn demand(self: &Rc<Self>) -> Demand {
        self.demands.set(self.demands.get() + 1);
        Demand { priority: Rc::clone(self), joined: None }
    }

    /// Registers a demand for a tensor that is being prefetched. Prefetching of all other tensors pauses.
    pub(crate) fn join(self: &Rc<Self>, tensor: &str) -> Demand {
        self.joined.borrow_mut().insert(tensor.to_owned());
        self.wake();
        let mut demand = self.demand();
        demand.joined = Some(tensor.to_owned());
        demand
    }

    /// Waits until there are no demands, or until `tensor`, which the caller is reading, is itself demanded. Returns
    /// whether it had to wait.
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

/// Lets a prefetching operation check when to pause and which tensors to skip.
pub(crate) struct Prefetching {
    pub(crate) priority: Rc<Priority>,
    /// Whether a tensor should still be prefetched. False once a caller loads it directly.
    pub(crate) is_wanted: Box<dyn Fn(&str) -> bool>,
}

/// The priority state of one prefetching connection.
pub(crate) struct PrefetchPriority {
    prefetching: Rc<Prefetching>,
    /// The tensor that the connection reads.
    tensor: RefCell<Option<String>>,
    has_waited: Cell<bool>,
}

impl PrefetchPriority {
    pub(crate) fn new(prefetching: Rc<Prefetching>) -> Self {
        PrefetchPriority { prefetching, tensor: RefCell::default(), has_waited: Cell::new(false) }
    }

    pub(crate) fn set_tensor(&self, tensor: &str) {
        *self.tensor.borrow_mut() = Some(tensor.to_owned());
    }

    /// Like [`Priority::yield_to_demands`], for the connection's current tensor.
    pub(crate) async fn yield_to_demands(&self) {
        let tensor = self.tensor.borrow().clone();
        if self.prefetching.priority.yield_to_demands(tensor.as_deref()).await {
            self.has_waited.set(true);
        }
    }

    /// Whether the connection had to wait since the last call.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited.take()
    }
}
