//! What the files of a loader report about the cache.

use crate::cache::client::Client;
use crate::error::Error;
use futures::future::{LocalBoxFuture, Shared};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Whether the files of one loader are cached, and the errors of the cache.
#[derive(Debug, Default)]
pub(crate) struct Report {
    error: RefCell<Option<String>>,
    is_caching: Cell<bool>,
    /// The start of the cache.
    start: RefCell<Option<Start>>,
}

/// Completes when it is known whether there is a cache.
type Start = Shared<LocalBoxFuture<'static, Option<Rc<Client>>>>;

impl Report {
    /// The first cache error, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.borrow().clone()
    }

    /// Whether what is downloaded is cached, once it is known whether there is a cache.
    #[cfg(feature = "js")]
    pub(crate) async fn is_caching(&self) -> bool {
        let start = self.start.borrow().clone();
        if let Some(start) = start {
            start.await;
        }
        self.is_caching.get()
    }

    pub(crate) fn set_start(&self, start: Start) {
        self.start.replace(Some(start));
    }

    /// Records whether there is a cache.
    pub(crate) fn set_caching(&self, is_caching: bool) {
        self.is_caching.set(is_caching);
    }

    pub(crate) fn note(&self, error: &Error) {
        self.error.borrow_mut().get_or_insert_with(|| error.what.clone());
    }
}
