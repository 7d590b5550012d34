//! The `cache` option: selects and opens a cache.

use super::UserCache;
use super::backend::Kind;
use super::client::Client;
use super::status::Status;
use crate::error::{Error, ErrorKind};
use std::rc::Rc;

/// The value of the `cache` option.
#[derive(Debug, Clone)]
pub(crate) enum CacheOption {
    /// The cache of the platform, if it provides one; otherwise OPFS or IndexedDB, unless OPFS is in memory.
    Auto,
    /// OPFS, even if it is in memory.
    Files,
    /// A cache object that the caller provides.
    UserCache(UserCache),
}

impl CacheOption {
    /// Whether the caller provides the cache.
    #[cfg(feature = "js")]
    pub(crate) fn is_of_caller(&self) -> bool {
        matches!(self, CacheOption::UserCache(_))
    }

    /// Passes the errors of values in a cache object of the caller to `observer`.
    pub(crate) fn with_observer(self, observer: impl Fn(&Error) + 'static) -> Self {
        match self {
            CacheOption::UserCache(user_cache) => CacheOption::UserCache(user_cache.with_observer(Rc::new(observer))),
            other => other,
        }
    }

    /// Opens the cache. Returns an error if there is no cache, and also, together with the cache, if IndexedDB replaces
    /// OPFS because the worker failed.
    pub(crate) async fn open(self) -> (Option<Rc<Client>>, Option<Error>) {
        let is_forced = match self {
            CacheOption::UserCache(user_cache) => return (Some(Client::with_user_cache(user_cache)), None),
            CacheOption::Files => true,
            CacheOption::Auto => match Client::of_platform() {
                Some(client) => return (Some(client), None),
                None => false,
            },
        };
        let client = Client::get();
        let Status { kind, reason } = client.status().await;
        let unsupported = |what: String| (None, Some(Error::new(ErrorKind::Unsupported, what)));
        match kind {
            Kind::Unavailable => unsupported(format!("nothing can be cached here: {reason}")),
            Kind::Memory if !is_forced => unsupported(
                "caching is disabled because the browser keeps the origin private file system in memory, as in a \
                 private window; set `cache: \"opfs\"` to use it anyway"
                    .to_owned(),
            ),
            Kind::Database if is_forced => unsupported(format!(
                "caching is disabled because the origin private file system is not available: {reason}"
            )),
            _ => {
                let error = client.start_error();
                let explain = |error: Error| {
                    Error::new(error.kind, format!("{}; files are cached in IndexedDB instead", error.what))
                };
                (Some(client), error.map(explain))
            }
        }
    }
}
