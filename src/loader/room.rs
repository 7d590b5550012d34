//! How much memory tensors may take that are on their way or wait to be asked for.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Memory that several runs share. A run that finds no room for its next tensor stops reading, and so does its server.
#[derive(Debug)]
pub(crate) struct Room {
    max_bytes: u64,
    used_bytes: Cell<u64>,
    /// The tensors that have room.
    begun: RefCell<HashSet<String>>,
    /// How many wait for room.
    blocked: Cell<usize>,
    wakers: RefCell<Vec<Waker>>,
}

/// Room for one tensor, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    room: Rc<Room>,
    name: String,
    bytes: u64,
}

impl Room {
    pub(crate) fn new(max_bytes: u64) -> Rc<Self> {
        let (used_bytes, begun, blocked, wakers) = Default::default();
        Rc::new(Room { max_bytes, used_bytes, begun, blocked, wakers })
    }

    /// Takes room, whether there is so much or not.
    pub(crate) fn take(self: &Rc<Self>, name: &str, bytes: u64) -> Taken {
        self.used_bytes.set(self.used_bytes.get().saturating_add(bytes));
        self.begun.borrow_mut().insert(name.to_owned());
        self.wake();
        Taken { room: Rc::clone(self), name: name.to_owned(), bytes }
    }

    /// Waits until `bytes` fit, and says whether it had to. A tensor that is larger than all the room may come alone; and nobody waits while
    /// `is_needed` says that what comes behind is needed to finish what was begun.
    pub(crate) async fn wait(&self, bytes: u64, is_needed: impl Fn() -> bool) -> bool {
        let mut blocked = None;
        poll_fn(|context| {
            let used = self.used_bytes.get();
            if used == 0 || used.saturating_add(bytes) <= self.max_bytes || is_needed() {
                return Poll::Ready(());
            }
            blocked.get_or_insert_with(|| Blocked::new(self));
            self.wake_later(context)
        })
        .await;
        blocked.is_some()
    }

    /// Waits until there is no room for others, and none was taken for the tensor of this name.
    pub(crate) async fn refused(&self, name: &str) {
        poll_fn(|context| match self.blocked.get() > 0 && !self.begun.borrow().contains(name) {
            true => Poll::Ready(()),
            false => self.wake_later(context),
        })
        .await;
    }

    fn wake_later(&self, context: &Context<'_>) -> Poll<()> {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.used_bytes.set(self.room.used_bytes.get().saturating_sub(self.bytes));
        self.room.begun.borrow_mut().remove(&self.name);
        self.room.wake();
    }
}

/// Somebody who waits for room.
struct Blocked<'a>(&'a Room);

impl<'a> Blocked<'a> {
    fn new(room: &'a Room) -> Self {
        room.blocked.set(room.blocked.get() + 1);
        room.wake();
        Blocked(room)
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.blocked.set(self.0.blocked.get().saturating_sub(1));
    }
}
