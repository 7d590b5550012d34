//! Lists and deletes the cached files of an origin.

use super::backend::CachedFile;
use super::client::Client;
use super::key;
#[cfg(feature = "js")]
use super::pending;
use crate::error::Result;
use futures::future::{FutureExt, LocalBoxFuture};
use std::rc::Rc;

/// Lists the cached files; none if there is no cache. A file that was read with several credentials is listed once for
/// each of them.
pub(crate) async fn list() -> Result<Vec<CachedFile>> {
    let mut files = Vec::new();
    for cache in caches().await {
        files.extend(cache.list().await?);
    }
    Ok(files)
}

/// Waits for all earlier writes to the cache of this page or worker.
#[cfg(feature = "js")]
pub(crate) async fn settled() -> Result<()> {
    pending::stored().await;
    let client = Client::of_platform().unwrap_or_else(Client::get);
    client.list().await.map(drop)
}

/// Deletes the files with these names, for all credentials that they were read with.
pub(crate) async fn delete(names: &[String]) -> Result<()> {
    for cache in caches().await {
        let listed = cache.list().await?;
        let keys = listed.into_iter().map(|file| file.key);
        let mut deleted: Vec<_> = keys.filter(|key| names.iter().any(|name| name == key::name_in(key))).collect();
        deleted.extend_from_slice(names); // also deletes entries that cannot be listed
        for key in deleted {
            cache.delete(&key, None).await?;
        }
    }
    Ok(())
}

/// Deletes all cached files.
pub(crate) async fn clear() -> Result<()> {
    for cache in caches().await {
        cache.clear().await?;
    }
    Ok(())
}

/// All caches that may contain files of this origin.
pub(crate) fn caches() -> LocalBoxFuture<'static, Vec<Rc<Client>>> {
    if let Some(client) = Client::of_platform() {
        return std::future::ready(vec![client]).boxed_local();
    }
    let caches = async {
        #[cfg(feature = "js")]
        pending::stored().await;
        let client = Client::get();
        let others = client.indexed_db_of_others().await;
        std::iter::once(client).chain(others).collect()
    };
    caches.boxed_local()
}
