//! What the files of a loader report about the cache.

use crate::browser::console::warn_once;
use crate::error::Error;
use std::cell::{Cell, RefCell};

/// Whether the files of one loader are cached, and the errors of the cache.
#[derive(Debug, Default)]
pub(crate) struct Report {
    error: RefCell<Option<String>>,
    is_caching: Cell<bool>,
}

impl Report {
    /// The first cache error, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.borrow().clone()
    }

    /// Whether what is downloaded is cached, as far as it is known.
    #[cfg(feature = "js")]
    pub(crate) fn is_caching(&self) -> bool {
        self.is_caching.get()
    }

    /// Records whether there is a cache.
    pub(crate) fn set_caching(&self, is_caching: bool) {
        self.is_caching.set(is_caching);
    }

    pub(crate) fn note(&self, error: &Error) {
        self.error.borrow_mut().get_or_insert_with(|| error.what.clone());
    }

    /// Records why there is no cache, and shows it once on the console: the model loads as usual, until the next visit
    /// downloads it again.
    pub(crate) fn note_missing_cache(&self, error: &Error) {
        self.note(error);
        warn_once(&format!("weightstream caches no models: {}.", error.what));
    }
}
