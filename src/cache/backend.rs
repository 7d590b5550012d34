//! The operations of a cache backend.

use super::content_index::ContentId;
use crate::error::Result;
use js_sys::ArrayBuffer;
use std::ops::Range;

/// The location of a content.
#[derive(Debug)]
pub(crate) struct ContentLocation {
    /// The cache key of the file.
    pub(crate) key: String,
    /// The version of the file.
    pub(crate) version: String,
    /// Offset in the file.
    pub(crate) start: u64,
    /// Length in bytes, if the content is cached completely.
    pub(crate) byte_length: Option<u64>,
}

/// A cached file, complete or in part.
#[derive(Debug)]
pub(crate) struct CachedFile {
    /// The cache key of the file.
    pub(crate) key: String,
    /// The number of bytes in the cache.
    pub(crate) cached_bytes: u64,
    /// The length of the whole file, if it is known.
    pub(crate) byte_length: Option<u64>,
    /// When the file was last used, in milliseconds since 1970.
    pub(crate) last_used_ms: u64,
}

/// Where a backend stores its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A store of cached files by URL, with one version of each file.
pub(super) trait CacheBackend {
    /// Where the files are stored.
    fn kind(&self) -> Kind;

    /// Returns the cached version of the file, and updates the time of its last use.
    async fn version(&mut self, url: &str) -> Result<Option<String>>;

    /// Reads the first cached bytes of `range` into `buffer`. Returns the number of bytes and the position after them.
    /// If the first byte of `range` is not cached, returns 0 and the end of the gap, at most `end_of_interest`.
    async fn read(
        &mut self,
        url: &str,
        version: &str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: &ArrayBuffer,
    ) -> Result<(u64, u64)>;

    /// Stores bytes of a version. Deletes the bytes of any other version.
    async fn write(&mut self, url: &str, version: &str, start: u64, bytes: &[u8]) -> Result<()>;

    /// Records the content ID of a range of a version.
    async fn note(&mut self, content: &ContentId, url: &str, version: &str, range: Range<u64>) -> Result<()>;

    /// Returns the location of each content that is found.
    async fn locate(&mut self, contents: &[Option<ContentId>]) -> Result<Vec<Option<ContentLocation>>>;

    /// Deletes a file. If `version` is given, deletes only that version.
    async fn delete(&mut self, url: &str, version: Option<&str>) -> Result<()>;

    /// Lists the cached files.
    async fn list(&self) -> Result<Vec<CachedFile>>;

    /// Deletes all files.
    async fn clear(&mut self) -> Result<()>;

    /// Closes the log of this name, because another worker needs it.
    fn release(&mut self, _name: &str) {}

    /// Whether any log is open.
    fn is_open(&self) -> bool {
        false
    }

    /// Flushes and closes all logs, so that other tabs can open them without a request.
    fn close_all(&mut self) {}
}
