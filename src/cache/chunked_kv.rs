//! Cached files in a key-value store: IndexedDB, or a cache object that the caller provides.
//!
//! The key of a piece names the file, the range and the checksum of the bytes. A missing, truncated or wrong value is
//! therefore detected when it is read, and the bytes are downloaded again. The only required order of writes is that
//! the head of a file precedes its pieces.
//!
//! | key, after `weightstream.` | value |
//! | --- | --- |
//! | name`.head` | the head of a log: URL, version and generation of the file |
//! | name`.used` | time of the last use, in milliseconds since 1970 |
//! | name`.`generation`.`start`.`end`.`CRC-32 | bytes of the file; all four numbers are hexadecimal |
//! | `content.`digest | the location of bytes with this digest, as in the content index |

mod contents;
mod keys;

use super::PIECE_BYTES;
use super::extents::{Extents, Piece};
use super::log::{Description, Found};
use super::record::{self, HEAD_BYTES, Head, name_of, write_identity};
use crate::codec::crc32::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::sorting::sort;
use keys::{CONTENT, PREFIX, key, parse_piece, piece_key, split, used_key};
use std::ops::Range;

/// Interval at which a writer checks whether another tab has deleted or replaced the file. Bytes that are written in
/// between are lost, and a later read reports them as missing.
const CHECK_INTERVAL_MS: u64 = 1_000;

/// A key-value store. A key is a valid file name: at most 128 characters of `a` to `z`, digits and dots.
#[allow(async_fn_in_trait, reason = "as for sources")]
pub(crate) trait KvStore {
    /// Returns the value, if any.
    ///
    /// # Errors
    /// `IO` if the store fails.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Stores a value, which is at most slightly longer than [`PIECE_BYTES`].
    ///
    /// # Errors
    /// `IO` if the store fails, `LIMIT` if it is full.
    async fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// Deletes values. Missing keys are ignored.
    ///
    /// # Errors
    /// `IO` if the store fails.
    async fn delete(&self, keys: Vec<String>) -> Result<()>;

    /// Returns all keys with this prefix.
    ///
    /// # Errors
    /// `IO` if the store fails.
    async fn keys(&self, prefix: &str) -> Result<Vec<String>>;

    /// Called with the key of a value that is not the one that was stored.
    fn note_wrong_value(&self, _key: &str) {}
}

/// The cached files in a key-value store.
#[derive(Debug)]
pub(crate) struct ChunkedKv<K> {
    store: K,
    /// The known state of the files. Other tabs may have written since.
    files: Vec<File>,
    /// The key and bytes of the piece that was read last. One piece often holds many small tensors.
    last: Option<(String, Vec<u8>)>,
}

#[derive(Debug)]
struct File {
    name: String,
    description: Description,
    version: String,
    generation: u64,
    extents: Extents,
    /// When the head of the file was last found in the store.
    checked_ms: u64,
}

/// A cached file.
#[derive(Debug)]
pub(crate) struct FileEntry {
    /// The URL and version of the file.
    pub(crate) description: Description,
    /// Number of cached bytes.
    pub(crate) byte_length: u64,
    /// Time of the last use, in milliseconds since 1970.
    pub(crate) last_used_ms: u64,
    name: String,
}

impl<K: KvStore> ChunkedKv<K> {
    /// The cached files in `store`.
    pub(crate) fn new(store: K) -> Self {
        ChunkedKv { store, files: Vec::new(), last: None }
    }

    /// The key-value store.
    #[cfg_attr(native, allow(dead_code, reason = "used only in browsers"))]
    pub(crate) fn store(&self) -> &K {
        &self.store
    }

    /// Returns the cached version of a file, and updates the time of its last use.
    ///
    /// # Errors
    /// This method and all others return the errors of the store.
    pub(crate) async fn version(&mut self, url: &str, now_ms: u64) -> Result<Option<String>> {
        let name = name_of(url);
        self.reload(&name).await?;
        let Some(file) = self.file(&name) else { return Ok(None) };
        self.store.set(&used_key(&name), &now_ms.to_le_bytes()).await?;
        Ok(Some(file.version.clone()))
    }

    /// Reads a version of a file, as [`Log::read`](super::log::Log::read) does.
    pub(crate) async fn read(
        &mut self,
        url: &str,
        version: &str,
        range: Range<u64>,
        min_run: u64,
    ) -> Result<Found<'_>> {
        let name = name_of(url);
        if self.file(&name).is_none() {
            self.reload(&name).await?;
        }
        if !self.find(&name, version, range.start).await? {
            self.reload(&name).await?; // another tab may have written it since
            if !self.find(&name, version, range.start).await? {
                let file = self.file(&name).filter(|file| file.version == version);
                return Ok(Found::Missing(file.map_or(range.clone(), |file| file.extents.missing(&range, min_run))));
            }
        }
        let extent = self.file(&name).and_then(|file| file.extents.find(range.start));
        let (Some((extent, piece)), Some((_, bytes))) = (extent, &self.last) else { return Ok(Found::Missing(range)) };
        let (start, end) = (range.start - piece.start, extent.end.min(range.end) - piece.start);
        Ok(Found::Bytes(bytes.get(start as usize..end as usize).unwrap_or_default()))
    }

    /// Stores `bytes`, at most [`PIECE_BYTES`], at the offset `start` of a version of the file. Deletes the bytes of
    /// any other version. `generation` is a random number for a new version.
    pub(crate) async fn write(
        &mut self,
        url: &str,
        version: &str,
        start: u64,
        bytes: &[u8],
        generation: u64,
        now_ms: u64,
    ) -> Result<()> {
        let unusable = || Error::new(ErrorKind::Internal, "the range to cache is longer than a piece or overflows u64");
        let end =
            start.checked_add(bytes.len() as u64).filter(|end| end - start <= PIECE_BYTES).ok_or_else(unusable)?;
        let name = name_of(url);
        // Another tab may have deleted or replaced the file since.
        let is_fresh = self.file(&name).is_some_and(|file| now_ms.abs_diff(file.checked_ms) < CHECK_INTERVAL_MS);
        if !is_fresh {
            let head = self.head(&name).await?.map(|(_, generation)| generation);
            if self.file(&name).map(|file| file.generation) != head {
                self.reload(&name).await?;
            }
        }
        if self.file(&name).is_none_or(|file| file.version != version) {
            let description = Description { url: url.to_owned(), identity: record::read_identity(version) };
            self.begin(&name, description, generation, now_ms).await?;
        }
        let file = self.files.iter_mut().find(|file| file.name == name).ok_or_else(unusable)?;
        if !is_fresh {
            file.checked_ms = now_ms;
        }
        loop {
            let gap = file.extents.missing(&(start..end), 1);
            if gap.is_empty() {
                return Ok(());
            }
            let part = bytes.get((gap.start - start) as usize..(gap.end - start) as usize).ok_or_else(unusable)?;
            let piece = Piece { start: gap.start, byte_length: part.len() as u32, crc32: checksum(part), at: 0 };
            self.store.set(&piece_key(&name, file.generation, &piece), part).await?;
            file.extents.insert(piece);
        }
    }

    /// Deletes a file. If `version` is given, deletes only that version.
    pub(crate) async fn delete(&mut self, url: &str, version: Option<&str>) -> Result<()> {
        let name = name_of(url);
        self.reload(&name).await?;
        if version.is_some_and(|version| self.file(&name).is_none_or(|file| file.version != version)) {
            return Ok(());
        }
        self.delete_file(&name).await
    }

    /// Lists all cached files.
    pub(crate) async fn list(&self) -> Result<Vec<FileEntry>> {
        let mut lengths: Vec<(String, u64)> = Vec::new();
        for key in self.store.keys(PREFIX).await? {
            let (Some((name, rest)), false) = (split(&key), key.starts_with(CONTENT)) else { continue };
            let byte_length = parse_piece(rest).map_or(0, |(_, piece)| u64::from(piece.byte_length));
            match lengths.iter_mut().rfind(|(known, _)| known == name) {
                Some((_, length)) => *length += byte_length,
                None => lengths.push((name.to_owned(), byte_length)),
            }
        }
        let mut files = Vec::new();
        for (name, byte_length) in lengths {
            let Some((description, _)) = self.head(&name).await? else { continue };
            let used = self.store.get(&used_key(&name)).await?;
            let last_used_ms = used.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?))).unwrap_or(0);
            files.push(FileEntry { description, byte_length, last_used_ms, name });
        }
        Ok(files)
    }

    /// Returns the total number of cached bytes.
    pub(crate) async fn byte_length(&self) -> Result<u64> {
        let keys = self.store.keys(PREFIX).await?;
        let pieces = keys.iter().filter_map(|key| parse_piece(split(key)?.1));
        Ok(pieces.map(|(_, piece)| u64::from(piece.byte_length)).sum())
    }

    /// Deletes all files.
    pub(crate) async fn clear(&mut self) -> Result<()> {
        self.files.clear();
        self.store.delete(self.store.keys(PREFIX).await?).await
    }

    /// Deletes the least recently used file, except `except_url` and files that were used at or after `since_ms`.
    /// Returns whether a file was deleted.
    pub(crate) async fn remove_oldest(&mut self, except_url: &str, since_ms: u64) -> Result<bool> {
        let except = name_of(except_url);
        let old = self.list().await?.into_iter().filter(|file| file.name != except && file.last_used_ms < since_ms);
        match old.min_by_key(|file| file.last_used_ms) {
            Some(oldest) => self.delete_file(&oldest.name).await.map(|()| true),
            None => Ok(false),
        }
    }

    fn file(&self, name: &str) -> Option<&File> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Loads the piece that contains `position` into `last`, and returns whether there is one. Deletes damaged pieces.
    async fn find(&mut self, name: &str, version: &str, position: u64) -> Result<bool> {
        let Some(file) = self.files.iter_mut().find(|file| file.name == name && file.version == version) else {
            return Ok(false);
        };
        while let Some((_, piece)) = file.extents.find(position) {
            let key = piece_key(name, file.generation, &piece);
            if self.last.as_ref().is_some_and(|(last, _)| *last == key) {
                return Ok(true);
            }
            let bytes = self.store.get(&key).await?;
            let is_stored = bytes.is_some();
            match bytes.filter(|bytes| bytes.len() == piece.byte_length as usize && checksum(bytes) == piece.crc32) {
                Some(bytes) => {
                    self.last = Some((key, bytes));
                    return Ok(true);
                }
                None => {
                    if is_stored {
                        self.store.note_wrong_value(&key);
                    }
                    self.store.delete(vec![key]).await?;
                    file.extents.remove(&piece);
                }
            }
        }
        Ok(false)
    }

    /// Reloads the state of the file of this name from the store.
    async fn reload(&mut self, name: &str) -> Result<()> {
        self.files.retain(|file| file.name != name);
        let Some((description, generation)) = self.head(name).await? else { return Ok(()) };
        let (mut extents, mut pieces, mut old) = (Extents::default(), Vec::new(), Vec::new());
        for key in self.store.keys(&key(name, "")).await? {
            match split(&key).and_then(|(_, rest)| parse_piece(rest)) {
                Some((of, piece)) if of == generation => pieces.push(piece),
                Some(_) => old.push(key),
                None => {}
            }
        }
        sort(&mut pieces, |piece| (piece.start, 0, 0)); // in any other order, each would move those behind it
        pieces.into_iter().for_each(|piece| extents.insert(piece));
        let version = write_identity(&description.identity);
        self.files.push(File { name: name.to_owned(), description, version, generation, extents, checked_ms: 0 });
        if old.is_empty() { Ok(()) } else { self.store.delete(old).await }
    }

    async fn begin(&mut self, name: &str, description: Description, generation: u64, now_ms: u64) -> Result<()> {
        let head = record::describe(&description, generation, now_ms)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "the URL is too long for the cache"))?;
        self.delete_file(name).await?;
        self.store.set(&key(name, "head"), &head).await?;
        self.store.set(&used_key(name), &now_ms.to_le_bytes()).await?;
        let version = write_identity(&description.identity);
        let extents = Extents::default();
        self.files.push(File { name: name.to_owned(), description, version, generation, extents, checked_ms: 0 });
        Ok(())
    }

    async fn delete_file(&mut self, name: &str) -> Result<()> {
        self.files.retain(|file| file.name != name);
        self.store.delete(self.store.keys(&key(name, "")).await?).await
    }

    async fn head(&self, name: &str) -> Result<Option<(Description, u64)>> {
        let key = key(name, "head");
        let Some(bytes) = self.store.get(&key).await? else { return Ok(None) };
        let Some(head) = bytes.first_chunk().and_then(Head::read) else {
            self.store.note_wrong_value(&key);
            return Ok(None);
        };
        let description = bytes.get(HEAD_BYTES..).and_then(|text| head.describes(text.get(..head.text_length)?));
        if description.is_none() {
            self.store.note_wrong_value(&key);
        }
        Ok(description.map(|description| (description, head.generation)))
    }
}
