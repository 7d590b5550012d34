//! The location of the cache, which the worker reports to its page.

use super::backend::CacheBackend;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The location of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// OPFS on a disk.
    Files,
    /// OPFS that the browser keeps in memory.
    Memory,
    /// IndexedDB.
    Database,
    /// A cache object that the caller provides.
    UserCache,
    /// No cache is available.
    Unavailable,
}

/// The location of the cache, and the reason if it is not OPFS.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) kind: Kind,
    pub(super) reason: String,
}

impl Status {
    pub(super) fn of(store: &Result<impl CacheBackend>, opfs_error: Option<&Error>) -> Self {
        let mut reasons = opfs_error.into_iter().chain(store.as_ref().err()).map(|error| error.what.as_str());
        let first = reasons.next().unwrap_or_default().to_owned();
        let reason = reasons.fold(first, |all, reason| format!("{all}; {reason}"));
        Status { kind: store.as_ref().map_or(Kind::Unavailable, CacheBackend::kind), reason }
    }

    pub(super) fn unavailable(reason: &Error) -> Self {
        Status { kind: Kind::Unavailable, reason: reason.what.clone() }
    }
}
