//! The part of a run that one connection reads, and how another connection takes over half of the rest.

use crate::loader::schedule::target::Target;
use crate::plan::{Run, WantedRange};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// A run that one connection reads. Other connections may take over its end.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) shard: usize,
    run: RefCell<Run<Target>>,
    /// Number of wanted ranges whose reading has started.
    started: Cell<usize>,
    /// The end of the bytes that were requested from the body.
    claimed: Cell<u64>,
    end: Rc<Cell<u64>>,
    /// Whether another connection reads a part of one of its components.
    is_cut: Rc<Cell<bool>>,
}

impl Share {
    /// `is_cut` says that another connection reads the start of the first component.
    pub(crate) fn new(run: Run<Target>, is_cut: bool) -> Self {
        let end = Rc::new(Cell::new(run.range.end));
        Share {
            shard: run.shard,
            started: Cell::new(0),
            claimed: Cell::new(run.range.start),
            run: RefCell::new(run),
            end,
            is_cut: Rc::new(Cell::new(is_cut)),
        }
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.run.borrow().range.clone()
    }

    /// Whether all bytes of the run must be read.
    pub(crate) fn reads_all(&self) -> bool {
        self.run.borrow().reads_all
    }

    /// The end of the run. It moves down when another connection takes over the rest.
    pub(crate) fn end(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.end)
    }

    /// Whether another connection reads a part of one of its components, so that all responses must be of one version.
    /// This may become true while the connection reads.
    pub(crate) fn is_cut(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.is_cut)
    }

    /// Starts the next wanted range. From now on other connections can take over only its end.
    pub(crate) fn begin_next(&self) -> Option<WantedRange<Target>> {
        let wanted = self.run.borrow().wanted.get(self.started.get()).cloned()?;
        self.started.set(self.started.get() + 1);
        Some(wanted)
    }

    /// The end of the range that is being read.
    pub(crate) fn end_of_current(&self) -> u64 {
        let run = self.run.borrow();
        let current = self.started.get().checked_sub(1).and_then(|at| run.wanted.get(at));
        current.map_or(run.range.end, |wanted| wanted.range.end)
    }

    /// Marks the bytes up to `end` as requested: this connection reads them.
    pub(crate) fn claim(&self, end: u64) {
        self.claimed.set(end);
    }

    /// Number of bytes that were not requested yet.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.end.get().saturating_sub(self.claimed.get())
    }

    /// Splits off half of the rest for another connection; `None` if one of the halves would be shorter than
    /// `min_bytes`. A component that `is_divisible` can itself be split: then `on_cut` is called with it.
    pub(crate) fn split(
        &self,
        min_bytes: u64,
        is_divisible: impl Fn(Target) -> bool,
        on_cut: impl Fn(Target),
    ) -> Option<Run<Target>> {
        let (started, claimed) = (self.started.get(), self.claimed.get());
        let mut run = self.run.borrow_mut();
        let given =
            run.split(started, claimed, min_bytes, Target::is_in_same_tensor, |target| is_divisible(*target))?;
        self.end.set(run.range.end);
        if let (Some(kept), Some(first)) = (run.wanted.last(), given.wanted.first())
            && kept.target == first.target
        {
            self.is_cut.set(true);
            on_cut(first.target);
        }
        Some(given)
    }
}
