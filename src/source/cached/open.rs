//! Opens the cache of a loader.

use super::{CachedSource, KeyFunction, Report};
use crate::cache::CacheOption;
use crate::cache::client::Client;
#[cfg(feature = "js")]
use crate::cache::pending;
use crate::error::Result;
use crate::source::fetch::FetchSource;
use futures::future::{FutureExt, LocalBoxFuture};
use std::rc::Rc;

/// Opens the cache; `None` if there is none. `report` receives its errors.
pub(crate) fn open(option: CacheOption, report: Rc<Report>) -> LocalBoxFuture<'static, Option<Rc<Client>>> {
    let opening = async move {
        let observed = Rc::clone(&report);
        let (cache, error) = option.with_observer(move |error| observed.note(error)).open().await;
        match &error {
            Some(error) if cache.is_none() => report.note_missing_cache(error),
            Some(error) => report.note(error),
            None => {}
        }
        report.set_caching(cache.is_some());
        cache
    };
    opening.boxed_local()
}

impl CachedSource {
    /// Opens the cache, once it has what another loader read before its own was open. Returns the file of `source` with
    /// the cache, or `None` if there is none.
    ///
    /// # Errors
    /// Those of [`KeyFunction::name`], before the cache is started, and even if it cannot be.
    pub(crate) fn open(
        source: FetchSource,
        option: CacheOption,
        key_function: KeyFunction,
        report: Rc<Report>,
    ) -> LocalBoxFuture<'static, Result<Option<Self>>> {
        let opening = async move {
            key_function.name(&source.cache_url())?;
            #[cfg(feature = "js")]
            pending::stored().await;
            let cache = open(option, Rc::clone(&report)).await;
            cache.map(|cache| CachedSource::new(source, cache, key_function, report)).transpose()
        };
        opening.boxed_local()
    }
}
