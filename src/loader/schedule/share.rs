//! What one connection has left to read of a run, and what another can take of that.

use crate::loader::schedule::target::Target;
use crate::plan::{Run, Wanted};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// A run that is being read by one connection, while others may take the end of it.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) shard: usize,
    run: RefCell<Run<Target>>,
    /// How many of what is wanted are read, or were.
    begun: Cell<usize>,
    /// Up to where bytes are asked of the body.
    claimed: Cell<u64>,
    end: Rc<Cell<u64>>,
}

impl Share {
    pub(crate) fn new(run: Run<Target>) -> Self {
        let end = Rc::new(Cell::new(run.range.end));
        Share {
            shard: run.shard,
            begun: Cell::new(0),
            claimed: Cell::new(run.range.start),
            run: RefCell::new(run),
            end,
        }
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.run.borrow().range.clone()
    }

    /// Where it ends: earlier once another connection took the rest.
    pub(crate) fn end(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.end)
    }

    /// What is to be read next. From now on nobody takes it away, at most its end.
    pub(crate) fn begin_next(&self) -> Option<Wanted<Target>> {
        let wanted = self.run.borrow().wanted.get(self.begun.get()).cloned()?;
        self.begun.set(self.begun.get() + 1);
        Some(wanted)
    }

    /// Where that ends which is being read.
    pub(crate) fn end_of_current(&self) -> u64 {
        let run = self.run.borrow();
        let current = self.begun.get().checked_sub(1).and_then(|at| run.wanted.get(at));
        current.map_or(run.range.end, |wanted| wanted.range.end)
    }

    /// The bytes up to `end` are on their way: they stay with this connection.
    pub(crate) fn claim(&self, end: u64) {
        self.claimed.set(end);
    }

    /// How many bytes nobody has asked a body for.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.end.get().saturating_sub(self.claimed.get())
    }

    /// Gives half of what is left to another connection; `None` where one of them would get fewer than `least_bytes`. A
    /// component that `is_divisible` may be cut: then `on_cut` is called with it.
    pub(crate) fn split(
        &self,
        least_bytes: u64,
        is_divisible: impl Fn(Target) -> bool,
        on_cut: impl Fn(Target),
    ) -> Option<Run<Target>> {
        let (begun, claimed) = (self.begun.get(), self.claimed.get());
        let mut run = self.run.borrow_mut();
        let given =
            run.split(begun, claimed, least_bytes, Target::are_of_one_tensor, |target| is_divisible(*target))?;
        self.end.set(run.range.end);
        if let (Some(kept), Some(first)) = (run.wanted.last(), given.wanted.first())
            && kept.purpose == first.purpose
        {
            on_cut(first.purpose);
        }
        Some(given)
    }
}
