//! The progress of a call, as apps receive it.

use crate::progress;
use std::fmt;
#[cfg(target_arch = "wasm32")]
use std::rc::Rc;
#[cfg(not(target_arch = "wasm32"))]
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
#[cfg(not(target_arch = "wasm32"))]
type Callback = Arc<dyn Fn(Progress) + Send + Sync>;
#[cfg(target_arch = "wasm32")]
type Callback = Rc<dyn Fn(Progress)>;

/// What an app calls with the progress, if it does.
#[derive(Clone, Default)]
pub(crate) struct OnProgress(Option<Callback>);

impl OnProgress {
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn new(callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        OnProgress(Some(Arc::new(callback)))
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn new(callback: impl Fn(Progress) + 'static) -> Self {
        OnProgress(Some(Rc::new(callback)))
    }

    #[cfg(not(target_arch = "wasm32"))]
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
