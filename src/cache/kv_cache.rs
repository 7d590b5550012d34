//! The cache in IndexedDB or in an object that the caller provides.

use super::backend::Kind;
use super::backend::{Answer, CacheBackend, CachedFile, ContentLocation};
use super::chunked_kv::{ChunkedKv, KvStore};
use super::content_index::ContentId;
use super::indexed::Database;
use super::log::Found;
use super::opfs::{QUOTA_EXCEEDED, available_bytes};
use super::record::write_identity;
use super::user_cache::UserCache;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use futures::future::FutureExt;
use js_sys::{ArrayBuffer, Date, Math, Uint8Array};
use std::ops::Range;

/// Number of bytes that may be written before the storage estimate is queried again.
const QUOTA_CHECK_BYTES: u64 = 64 << 20;

/// A cache in a key-value store.
#[derive(Debug)]
pub(super) struct KvCache {
    files: ChunkedKv<Store>,
    /// Whether the storage quota of the browser applies. A cache object of the caller throws when it is full.
    has_quota: bool,
    /// Number of bytes that may be written before the next query of the storage estimate.
    available_bytes: u64,
    /// Files that were used after this time are not evicted.
    started_ms: u64,
}

/// The key-value store.
#[derive(Debug)]
enum Store {
    Database(Database),
    UserCache(UserCache),
}

impl KvCache {
    /// Opens the cache in `user_cache`, or else in IndexedDB.
    pub(super) fn open(user_cache: Option<UserCache>) -> Answer<'static, Box<dyn CacheBackend>> {
        async move {
            let cache = match user_cache {
                Some(user_cache) => KvCache::new(Store::UserCache(user_cache)),
                None => KvCache::new(Store::Database(Database::open().await?)),
            };
            Ok(Box::new(cache) as Box<dyn CacheBackend>)
        }
        .boxed_local()
    }

    fn new(store: Store) -> Self {
        let has_quota = matches!(store, Store::Database(_));
        KvCache { files: ChunkedKv::new(store), has_quota, available_bytes: 0, started_ms: now_ms() }
    }

    /// Reserves space for `byte_length` bytes. Evicts the least recently used files if there is not enough space.
    async fn reserve(&mut self, byte_length: u64, url: &str) -> Result<()> {
        while self.available_bytes < byte_length {
            // Chromium updates the usage of a database with a delay.
            self.available_bytes = available_bytes(self.files.byte_length().await?).await?.min(QUOTA_CHECK_BYTES);
            if self.available_bytes < byte_length && !self.files.remove_oldest(url, self.started_ms).await? {
                self.available_bytes = 0;
                return Err(Error::new(ErrorKind::Limit, QUOTA_EXCEEDED));
            }
        }
        self.available_bytes -= byte_length;
        Ok(())
    }
}

impl CacheBackend for KvCache {
    fn kind(&self) -> Kind {
        match self.files.store() {
            Store::Database(_) => Kind::Database,
            Store::UserCache(_) => Kind::UserCache,
        }
    }

    fn version<'a>(&'a mut self, url: &'a str) -> Answer<'a, Option<String>> {
        async move { self.files.version(url, now_ms()).await }.boxed_local()
    }

    fn read<'a>(
        &'a mut self,
        url: &'a str,
        version: &'a str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: &'a ArrayBuffer,
    ) -> Answer<'a, (u64, u64)> {
        async move {
            let into = Uint8Array::new(buffer);
            let mut count = 0;
            let Range { start, end } = range;
            let end = end.min(start.saturating_add(u64::from(into.length())));
            while start + u64::from(count) < end {
                let rest = start + u64::from(count)..end_of_interest;
                match self.files.read(url, version, rest, DEFAULT_COALESCE_GAP_BYTES).await? {
                    Found::Missing(missing) if count == 0 => return Ok((0, missing.end)),
                    Found::Missing(_) => break,
                    Found::Bytes(bytes) => {
                        let fits = bytes.get(..(end - start) as usize - count as usize).unwrap_or(bytes);
                        into.subarray(count, count + fits.len() as u32).copy_from(fits);
                        count += fits.len() as u32;
                    }
                }
            }
            Ok((u64::from(count), start + u64::from(count)))
        }
        .boxed_local()
    }

    fn write<'a>(&'a mut self, url: &'a str, version: &'a str, start: u64, bytes: &'a [u8]) -> Answer<'a, ()> {
        async move {
            if self.has_quota {
                self.reserve(bytes.len() as u64, url).await?;
            }
            let generation = (Math::random() * 2f64.powi(53)) as u64;
            loop {
                match self.files.write(url, version, start, bytes, generation, now_ms()).await {
                    // There may be less space than the storage estimate says.
                    Err(error)
                        if error.kind == ErrorKind::Limit && self.files.remove_oldest(url, self.started_ms).await? => {}
                    outcome => return outcome,
                }
            }
        }
        .boxed_local()
    }

    fn note<'a>(
        &'a mut self,
        content: &'a ContentId,
        url: &'a str,
        version: &'a str,
        range: Range<u64>,
    ) -> Answer<'a, ()> {
        async move { self.files.note(content, url, version, range).await }.boxed_local()
    }

    fn locate<'a>(&'a mut self, contents: &'a [Option<ContentId>]) -> Answer<'a, Vec<Option<ContentLocation>>> {
        async move {
            let locations = self.files.locate(contents).await?.into_iter().map(|location| {
                let location = location?;
                let Range { start, end } = location.range;
                let byte_length = location.is_whole.then(|| end - start);
                Some(ContentLocation { key: location.url, version: location.version, start, byte_length })
            });
            Ok(locations.collect())
        }
        .boxed_local()
    }

    fn delete<'a>(&'a mut self, url: &'a str, version: Option<&'a str>) -> Answer<'a, ()> {
        async move { self.files.delete(url, version).await }.boxed_local()
    }

    fn list(&self) -> Answer<'_, Vec<CachedFile>> {
        async move {
            let files = self.files.list().await?.into_iter().map(|file| CachedFile {
                key: file.description.url,
                version: write_identity(&file.description.identity),
                cached_bytes: file.byte_length,
                byte_length: file.description.identity.length,
                last_used_ms: file.last_used_ms,
            });
            Ok(files.collect())
        }
        .boxed_local()
    }

    fn clear(&mut self) -> Answer<'_, ()> {
        async move { self.files.clear().await }.boxed_local()
    }
}

impl KvStore for Store {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Store::Database(store) => store.get(key).await,
            Store::UserCache(store) => store.get(key).await,
        }
    }

    async fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        match self {
            Store::Database(store) => store.set(key, value).await,
            Store::UserCache(store) => store.set(key, value).await,
        }
    }

    async fn delete(&self, keys: Vec<String>) -> Result<()> {
        match self {
            Store::Database(store) => store.delete(keys).await,
            Store::UserCache(store) => store.delete(keys).await,
        }
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        match self {
            Store::Database(store) => store.keys(prefix).await,
            Store::UserCache(store) => store.keys(prefix).await,
        }
    }

    fn note_wrong_value(&self, key: &str) {
        if let Store::UserCache(store) = self {
            store.note_wrong_value(key);
        }
    }
}

fn now_ms() -> u64 {
    Date::now() as u64
}
