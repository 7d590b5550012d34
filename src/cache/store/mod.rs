//! The cache in OPFS: a directory with one log per file.
//!
//! Only one worker at a time has a log open, and it holds a Web Lock of that name. A worker that needs a log which
//! another worker has open requests it on a `BroadcastChannel`. The other worker closes the log between two requests.

mod content;
mod eviction;

use super::backend::Kind;
use super::backend::{Answer, CacheBackend, CachedFile, ContentLocation};
use super::content_index::{ContentId, ContentIndex};
use super::log::{self, Description, Found, Log, MAX_HEADER_BYTES};
use super::memory;
use super::opfs::{Directory, Entry, IfMissing, SyncFile, storage_error};
use super::record::{name_of, read_identity, write_identity};
use crate::browser::lock::Lock;
use crate::browser::timer::pause;
use crate::error::{ErrorKind, Result};
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use futures::future::{self, Either, FutureExt};
use js_sys::{ArrayBuffer, Date, Math, Uint8Array};
use std::ops::Range;
use std::pin::pin;
use wasm_bindgen::prelude::*;

/// Maximum number of open logs. A loader has fewer connections, each of which may read another file.
const MAX_OPEN: usize = 8;

/// The file name of the content index, which is in the same directory as the logs.
const CONTENTS: &str = "contents";

/// Interval at which a waiting worker repeats its request for a log. Another worker may have opened the log since the
/// last request.
const CALL_INTERVAL_MS: u64 = 100;

/// The cache in OPFS.
pub(super) struct Store {
    directory: Directory,
    is_in_memory: bool,
    /// The open logs, the least recently used one first.
    open: Vec<Open>,
    contents: Option<OpenContentIndex>,
    channel: BroadcastChannel,
    /// Number of bytes that may be written before the next query of the storage estimate.
    available_bytes: u64,
    /// Files that were used after this time are not evicted.
    started_ms: u64,
}

struct Open {
    name: String,
    // Closed before the lock is released: fields are dropped in this order.
    log: Log<SyncFile>,
    _lock: Lock,
    version: Option<String>,
    is_dirty: bool,
}

struct OpenContentIndex {
    list: ContentIndex<SyncFile>,
    _lock: Lock,
}

impl Store {
    pub(super) async fn new(channel: BroadcastChannel) -> Result<Self> {
        let directory = Directory::open().await?;
        let is_in_memory = memory::is_in_memory().await;
        Ok(Store {
            directory,
            is_in_memory,
            open: Vec::new(),
            contents: None,
            channel,
            available_bytes: 0,
            started_ms: now_ms(),
        })
    }
}

impl CacheBackend for Store {
    fn kind(&self) -> Kind {
        if self.is_in_memory { Kind::Memory } else { Kind::Files }
    }

    fn version<'a>(&'a mut self, url: &'a str) -> Answer<'a, Option<String>> {
        async move {
            let Some(open) = self.open(&name_of(url), IfMissing::Skip).await? else { return Ok(None) };
            open.log.touch(now_ms())?;
            Ok(open.version.clone())
        }
        .boxed_local()
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
            let open = self
                .open(&name_of(url), IfMissing::Skip)
                .await?
                .filter(|open| open.version.as_deref() == Some(version));
            let Some(open) = open else { return Ok((0, end_of_interest)) };
            let into = Uint8Array::new(buffer);
            let Range { mut start, end } = range;
            let (first, end) = (start, end.min(start.saturating_add(u64::from(into.length()))));
            while start < end {
                match open.log.read(start..end, 1)? {
                    Found::Bytes(bytes) => {
                        let at = (start - first) as u32;
                        into.subarray(at, at + bytes.len() as u32).copy_from(bytes);
                        start += bytes.len() as u64;
                    }
                    Found::Missing(_) if start > first => break,
                    Found::Missing(_) => {
                        return Ok(match open.log.read(start..end_of_interest, DEFAULT_COALESCE_GAP_BYTES)? {
                            Found::Missing(missing) => (0, missing.end),
                            Found::Bytes(_) => (0, end_of_interest),
                        });
                    }
                }
            }
            Ok((start - first, start))
        }
        .boxed_local()
    }

    fn write<'a>(&'a mut self, url: &'a str, version: &'a str, start: u64, bytes: &'a [u8]) -> Answer<'a, ()> {
        async move {
            let name = name_of(url);
            self.reserve(bytes.len() as u64 + MAX_HEADER_BYTES, &name).await?;
            loop {
                match self.append(url, &name, version, start, bytes).await {
                    // Browsers reserve more than is written, so there may be less space than the storage estimate says.
                    Err(error) if error.kind == ErrorKind::Limit && self.remove_oldest(&name).await? => {}
                    outcome => return outcome,
                }
            }
        }
        .boxed_local()
    }

    fn delete<'a>(&'a mut self, url: &'a str, version: Option<&'a str>) -> Answer<'a, ()> {
        async move {
            let name = name_of(url);
            if let Some(version) = version {
                let open = self.open(&name, IfMissing::Skip).await?;
                if open.is_none_or(|open| open.version.as_deref() != Some(version)) {
                    return Ok(());
                }
            }
            let lock = self.lock(&name).await?;
            self.directory.remove(&name).await?;
            drop(lock);
            Ok(())
        }
        .boxed_local()
    }

    fn list(&self) -> Answer<'_, Vec<CachedFile>> {
        async move {
            let mut list = Vec::new();
            for entry in self.directory.entries().await? {
                if let Some((description, last_used_ms)) = read_header(&entry).await {
                    list.push(CachedFile {
                        key: description.url,
                        version: write_identity(&description.identity),
                        cached_bytes: entry.byte_length,
                        byte_length: description.identity.length,
                        last_used_ms,
                    });
                }
            }
            Ok(list)
        }
        .boxed_local()
    }

    fn clear(&mut self) -> Answer<'_, ()> {
        async move {
            for entry in self.directory.entries().await? {
                let lock = self.lock(&entry.name).await?;
                self.directory.remove(&entry.name).await?;
                drop(lock);
            }
            Ok(())
        }
        .boxed_local()
    }

    fn release(&mut self, name: &str) {
        if name == CONTENTS {
            self.contents = None;
        }
        self.open.retain(|open| open.name != name);
    }

    fn is_open(&self) -> bool {
        !self.open.is_empty() || self.contents.is_some()
    }

    fn close_all(&mut self) {
        for open in self.open.iter_mut().filter(|open| open.is_dirty) {
            open.log.flush().ok(); // the next reader detects missing bytes
        }
        self.open.clear();
        self.contents = None;
    }

    fn note<'a>(
        &'a mut self,
        content: &'a ContentId,
        url: &'a str,
        version: &'a str,
        range: Range<u64>,
    ) -> Answer<'a, ()> {
        async move { self.note_content(content, url, version, range).await }.boxed_local()
    }

    fn locate<'a>(&'a mut self, contents: &'a [Option<ContentId>]) -> Answer<'a, Vec<Option<ContentLocation>>> {
        async move { self.locate_contents(contents).await }.boxed_local()
    }
}

impl Store {
    async fn append(&mut self, url: &str, name: &str, version: &str, start: u64, bytes: &[u8]) -> Result<()> {
        let Some(open) = self.open(name, IfMissing::Create).await? else { return Ok(()) };
        if open.version.as_deref() != Some(version) {
            let identity = read_identity(version);
            let generation = (Math::random() * 2f64.powi(53)) as u64;
            open.version = None;
            open.log.begin(Description { url: url.to_owned(), identity }, generation, now_ms())?;
            open.version = Some(version.to_owned());
        }
        open.is_dirty = true;
        open.log.append(start, bytes)
    }

    async fn open(&mut self, name: &str, if_missing: IfMissing) -> Result<Option<&mut Open>> {
        let open = if let Some(at) = self.open.iter().position(|open| open.name == name) {
            self.open.remove(at)
        } else {
            let lock = self.lock(name).await?;
            let Some(file) = self.directory.file(name, if_missing).await? else { return Ok(None) };
            let log = Log::open(file)?;
            let version = log.description().map(|description| write_identity(&description.identity));
            self.open.drain(..self.open.len().saturating_sub(MAX_OPEN - 1));
            Open { name: name.to_owned(), log, _lock: lock, version, is_dirty: false }
        };
        self.open.push(open);
        Ok(self.open.last_mut())
    }

    /// Waits until no worker has the log open, and locks it.
    async fn lock(&mut self, name: &str) -> Result<Lock> {
        self.release(name);
        let lock_name = lock_name(name);
        if let Some(lock) = Lock::try_now(&lock_name).await.map_err(storage_error)? {
            return Ok(lock);
        }
        // A waiting worker holds no locks, so that two workers cannot deadlock.
        self.open.clear();
        self.contents = None;
        let mut waiting = pin!(Lock::wait(&lock_name));
        loop {
            self.channel.post_message(&name.into());
            match future::select(waiting.as_mut(), pin!(pause(CALL_INTERVAL_MS))).await {
                Either::Left((lock, _)) => return lock.map_err(storage_error),
                Either::Right(_) => {}
            }
        }
    }
}

#[wasm_bindgen]
extern "C" {
    /// A channel to all workers of the origin.
    pub(super) type BroadcastChannel;
    #[wasm_bindgen(constructor, catch)]
    pub(super) fn new(name: &str) -> Result<BroadcastChannel, JsValue>;
    #[wasm_bindgen(method, js_name = postMessage)]
    fn post_message(this: &BroadcastChannel, message: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onmessage)]
    pub(super) fn set_onmessage(this: &BroadcastChannel, listener: &JsValue);
}

async fn read_header(entry: &Entry) -> Option<(Description, u64)> {
    log::parse_header(&entry.first_bytes(MAX_HEADER_BYTES).await.ok()?)
}

fn lock_name(name: &str) -> String {
    format!("weightstream log {name}")
}

fn now_ms() -> u64 {
    Date::now() as u64
}
