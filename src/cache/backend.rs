//! The operations of a cache backend.

use super::content_index::ContentId;
use crate::error::Result;
use futures::future::LocalBoxFuture;
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
    /// The version of the file.
    pub(crate) version: String,
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

/// The result of an operation.
pub(super) type Answer<'a, T> = LocalBoxFuture<'a, Result<T>>;

/// A store of cached files by URL, with one version of each file.
pub(super) trait CacheBackend {
    /// Where the files are stored.
    fn kind(&self) -> Kind;

    /// Returns the cached version of the file, and updates the time of its last use.
    fn version<'a>(&'a mut self, url: &'a str) -> Answer<'a, Option<String>>;

    /// Reads the first cached bytes of `range` into `buffer`. Returns the number of bytes and the position after them.
    /// If the first byte of `range` is not cached, returns 0 and the end of the gap, at most `end_of_interest`.
    fn read<'a>(
        &'a mut self,
        url: &'a str,
        version: &'a str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: &'a ArrayBuffer,
    ) -> Answer<'a, (u64, u64)>;

    /// Stores bytes of a version. Deletes the bytes of any other version.
    fn write<'a>(&'a mut self, url: &'a str, version: &'a str, start: u64, bytes: &'a [u8]) -> Answer<'a, ()>;

    /// Records the content ID of a range of a version.
    fn note<'a>(
        &'a mut self,
        content: &'a ContentId,
        url: &'a str,
        version: &'a str,
        range: Range<u64>,
    ) -> Answer<'a, ()>;

    /// Returns the location of each content that is found.
    fn locate<'a>(&'a mut self, contents: &'a [Option<ContentId>]) -> Answer<'a, Vec<Option<ContentLocation>>>;

    /// Deletes a file. If `version` is given, deletes only that version.
    fn delete<'a>(&'a mut self, url: &'a str, version: Option<&'a str>) -> Answer<'a, ()>;

    /// Lists the cached files.
    fn list(&self) -> Answer<'_, Vec<CachedFile>>;

    /// Deletes all files.
    fn clear(&mut self) -> Answer<'_, ()>;

    /// Closes the log of this name, because another worker needs it.
    fn release(&mut self, _name: &str) {}

    /// Whether any log is open.
    fn is_open(&self) -> bool {
        false
    }

    /// Flushes and closes all logs, so that other tabs can open them without a request.
    fn close_all(&mut self) {}
}
