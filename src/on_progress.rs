//! The progress of a call, as apps receive it.

use crate::progress;
use std::fmt;
#[cfg(web)]
use std::rc::Rc;
#[cfg(native)]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of bytes that were read.
    pub loaded: u64,
    /// The number of bytes that the call reads in total, once it is known.
    pub total: Option<u64>,
}

/// What an app calls with the progress.
#[cfg(native)]
type Callback = Arc<dyn Fn(Progress) + Send + Sync>;
#[cfg(web)]
type Callback = Rc<dyn Fn(Progress)>;

/// What an app calls with the progress, if it does.
#[derive(Clone, Default)]
pub(crate) struct OnProgress(Option<Callback>);

impl OnProgress {
    #[cfg(native)]
    pub(crate) fn new(callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        OnProgress(Some(Arc::new(callback)))
    }

    #[cfg(web)]
    pub(crate) fn new(callback: impl Fn(Progress) + 'static) -> Self {
        OnProgress(Some(Rc::new(callback)))
    }

    #[cfg(native)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// This callback, or else another one.
    pub(crate) fn or(&self, other: &OnProgress) -> OnProgress {
        OnProgress(self.0.clone().or_else(|| other.0.clone()))
    }

    /// Counts the bytes of one call.
    pub(crate) fn meter(self) -> Meter {
        Meter { on_progress: self, loaded: AtomicU64::new(0), total: AtomicU64::new(UNKNOWN) }
    }
}

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress")
    }
}

/// Counts the bytes of one call.
pub(crate) struct Meter {
    on_progress: OnProgress,
    loaded: AtomicU64,
    total: AtomicU64,
}

/// The total before it is known. No model has this many bytes.
const UNKNOWN: u64 = u64::MAX;

impl Meter {
    fn report(&self) {
        if let OnProgress(Some(callback)) = &self.on_progress {
            let total = Some(self.total.load(Ordering::Relaxed)).filter(|total| *total != UNKNOWN);
            callback(Progress { loaded: self.loaded.load(Ordering::Relaxed), total });
        }
    }
}

impl progress::Progress for Meter {
    fn expects(&self, total_bytes: u64) {
        self.total.store(total_bytes, Ordering::Relaxed);
        self.report();
    }

    fn advanced(&self, bytes: u64) {
        self.loaded.fetch_add(bytes, Ordering::Relaxed);
        self.report();
    }
}
