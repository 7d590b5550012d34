//! Reports the progress of a tensor that is being prefetched to the call that waits for it.

use crate::algorithm::Algorithm;
use crate::index::Tensor;
use crate::progress::{BytesArrived, Progress};
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// How much of a prefetched tensor has arrived, and the call that waits for it.
#[derive(Default)]
pub(super) struct PrefetchProgress {
    /// Set before its transfer starts.
    tensor: OnceCell<Arc<Tensor>>,
    bytes: Cell<u64>,
    follower: RefCell<Option<Rc<dyn Progress>>>,
}

impl PrefetchProgress {
    pub(super) fn set_tensor(&self, tensor: &Arc<Tensor>) {
        self.tensor.get_or_init(|| Arc::clone(tensor));
    }

    pub(super) fn add(&self, arrived: &BytesArrived<'_>) {
        self.bytes.set(self.bytes.get() + arrived.range.end - arrived.range.start);
        let follower = self.follower.borrow().clone();
        if let Some(follower) = follower {
            follower.arrived(arrived.clone());
        }
    }

    /// Reports the bytes that have arrived to `observer`, and those that will arrive.
    pub(super) fn follow(&self, observer: &Rc<dyn Progress>) {
        if let Some(tensor) = self.tensor.get() {
            observer.expects(stored_bytes(tensor));
            report(tensor, 0..self.bytes.get(), &**observer);
        }
        self.follower.replace(Some(Rc::clone(observer)));
    }

    /// Stops reporting. Returns the number of bytes that have arrived.
    pub(super) fn unfollow(&self) -> u64 {
        self.follower.replace(None);
        self.bytes.get()
    }
}

/// Reports a tensor that has arrived completely.
pub(super) fn report_all(tensor: &Tensor, observer: &dyn Progress) {
    observer.expects(stored_bytes(tensor));
    report(tensor, 0..u64::MAX, observer);
}

/// Reports a part of a tensor's stored bytes.
#[inline(never)]
pub(super) fn report(tensor: &Tensor, part: Range<u64>, observer: &dyn Progress) {
    let mut at = 0;
    for component in &tensor.components {
        let Range { start, end } = component.range;
        let length = end - start;
        let first = part.start.saturating_sub(at).min(length);
        let last = part.end.saturating_sub(at).min(length);
        if first < last {
            let range = start + first..start + last;
            observer.arrived(BytesArrived { shard: tensor.shard, range, connection: 0, tensor: Some(&tensor.name) });
        }
        at += length;
    }
}

/// The number of bytes of a tensor in its file.
pub(super) fn stored_bytes(tensor: &Tensor) -> u64 {
    tensor.components.iter().fold(0, |sum, component| sum + (component.range.end - component.range.start))
}

/// The progress of a part of a load.
pub(super) struct Partial {
    pub(super) observer: Rc<dyn Progress>,
    /// The number of bytes of the other parts; `None` if another part reports the total.
    pub(super) other_bytes: Option<u64>,
}

impl Progress for Partial {
    fn expects(&self, total_bytes: u64) {
        if let Some(other_bytes) = self.other_bytes {
            self.observer.expects(total_bytes.saturating_add(other_bytes));
        }
    }

    fn arrived(&self, arrived: BytesArrived<'_>) {
        self.observer.arrived(arrived);
    }

    fn checked(&self, verified_by: Option<Algorithm>) {
        self.observer.checked(verified_by);
    }
}

/// The progress of a load that starts again after prefetching has failed: bytes that were reported are not reported
/// twice.
pub(super) struct Restarted {
    pub(super) observer: Rc<dyn Progress>,
    pub(super) reported: Cell<u64>,
}

impl Progress for Restarted {
    fn arrived(&self, mut arrived: BytesArrived<'_>) {
        if arrived.tensor.is_some() {
            let known = self.reported.get().min(arrived.range.end - arrived.range.start);
            self.reported.set(self.reported.get() - known);
            arrived.range.start += known;
        }
        if !arrived.range.is_empty() {
            self.observer.arrived(arrived);
        }
    }
}
