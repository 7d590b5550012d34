//! What [`OpenOptions::open`](crate::OpenOptions::open) could not have.

use crate::source::cached;
use crate::workers::PoolHandle;
use std::cell::OnceCell;
use std::rc::Rc;

/// Why the cache or the workers of a loader are not used. A load does not fail without them.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(super) cache: Rc<cached::Report>,
    pub(super) workers: OnceCell<Rc<PoolHandle>>,
}

impl Report {
    /// Why files are not cached, or no longer, if [`OpenOptions::cache`](crate::OpenOptions::cache) asks for it.
    pub(crate) fn cache_error(&self) -> Option<String> {
        self.cache.error()
    }

    /// Why no workers are used although there was enough work for them, if
    /// [`OpenOptions::workers`](crate::OpenOptions::workers) asks for some.
    pub(crate) fn workers_error(&self) -> Option<String> {
        self.workers.get().and_then(|workers| workers.error())
    }
}
