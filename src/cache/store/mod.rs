//! The logs of all files, those that this worker has open and those in the folder.
//!
//! A log is open in one worker at a time: whoever has it open holds a Web Lock of its name. A worker that wants a log
//! which another has calls for it on a channel that all of them hear, and is given it between two requests.

mod content;
mod room;

use super::contents::{Content, Contents};
use super::keep::Keep;
use super::log::{self, Description, Found, GLANCE_BYTES, Log};
use super::memory;
use super::opfs::{Entry, Folder, SyncFile, failed};
use super::record::{name_of, read_identity, write_identity};
use super::status::Kind;
use crate::browser::lock::Lock;
use crate::browser::timer::pause;
use crate::error::{ErrorKind, Result};
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use futures::future::{self, Either};
use js_sys::{Array, ArrayBuffer, Date, Math, Uint8Array};
use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use wasm_bindgen::prelude::*;

/// So many logs are open at once: more than a loader has connections, each of which may read another file.
const MAX_OPEN: usize = 8;

/// The list of contents, among the logs.
const CONTENTS: &str = "contents";

/// How often a worker that waits calls for a log: whoever has it may have got it after the last call.
const CALL_INTERVAL_MS: u64 = 100;

/// All that is kept.
pub(super) struct Store {
    folder: Folder,
    is_in_memory: bool,
    open: HashMap<String, Open>,
    contents: Option<OpenContents>,
    channel: BroadcastChannel,
    /// How many bytes can be written before asking again.
    room_bytes: u64,
    /// What was used since is not removed to make room.
    started_ms: u64,
}

struct Open {
    // Closed before the lock is released: fields are dropped in this order.
    log: Log<SyncFile>,
    _lock: Lock,
    version: Option<String>,
    used_ms: f64,
    is_dirty: bool,
}

struct OpenContents {
    list: Contents<SyncFile>,
    _lock: Lock,
}

impl Store {
    pub(super) async fn new(channel: BroadcastChannel) -> Result<Self> {
        let folder = Folder::open().await?;
        let is_in_memory = memory::is_in_memory().await;
        Ok(Store {
            folder,
            is_in_memory,
            open: HashMap::new(),
            contents: None,
            channel,
            room_bytes: 0,
            started_ms: now_ms(),
        })
    }
}

impl Keep for Store {
    fn kind(&self) -> Kind {
        if self.is_in_memory { Kind::Memory } else { Kind::Files }
    }

    async fn version(&mut self, url: &str) -> Result<Option<String>> {
        let Some(open) = self.open(&name_of(url), false).await? else { return Ok(None) };
        open.log.touch(now_ms())?;
        Ok(open.version.clone())
    }

    async fn read(
        &mut self,
        url: &str,
        version: &str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: &ArrayBuffer,
    ) -> Result<(u64, u64)> {
        let open = self.open(&name_of(url), false).await?.filter(|open| open.version.as_deref() == Some(version));
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

    async fn write(&mut self, url: &str, version: &str, start: u64, bytes: &[u8]) -> Result<()> {
        let name = name_of(url);
        self.make_room(bytes.len() as u64 + GLANCE_BYTES, &name).await?;
        loop {
            match self.append(url, &name, version, start, bytes).await {
                // Browsers set more aside than they are asked for, so that there may be less room than they say.
                Err(error) if error.kind == ErrorKind::Limit && self.remove_oldest(&name).await? => {}
                outcome => return outcome,
            }
        }
    }

    async fn delete(&mut self, url: &str, version: Option<&str>) -> Result<()> {
        let name = name_of(url);
        if let Some(version) = version {
            let open = self.open(&name, false).await?;
            if open.is_none_or(|open| open.version.as_deref() != Some(version)) {
                return Ok(());
            }
        }
        let lock = self.lock(&name).await?;
        self.folder.remove(&name).await?;
        drop(lock);
        Ok(())
    }

    async fn list(&self) -> Result<Array> {
        let list = Array::new();
        for entry in self.folder.entries().await? {
            if let Some((description, last_used_ms)) = glance(&entry).await {
                let file_length =
                    description.identity.length.map_or(JsValue::UNDEFINED, |length| (length as f64).into());
                let (byte_length, last_used) = (entry.byte_length as f64, last_used_ms as f64);
                list.push(&Array::of4(&description.url.into(), &byte_length.into(), &file_length, &last_used.into()));
            }
        }
        Ok(list)
    }

    async fn clear(&mut self) -> Result<()> {
        for entry in self.folder.entries().await? {
            let lock = self.lock(&entry.name).await?;
            self.folder.remove(&entry.name).await?;
            drop(lock);
        }
        Ok(())
    }

    fn give_up(&mut self, name: &str) {
        if name == CONTENTS {
            self.contents = None;
        }
        self.open.remove(name);
    }

    fn is_open(&self) -> bool {
        !self.open.is_empty() || self.contents.is_some()
    }

    fn rest(&mut self) {
        for open in self.open.values_mut().filter(|open| open.is_dirty) {
            open.log.flush().ok(); // whoever reads it next finds out whether it is there
        }
        self.open.clear();
        self.contents = None;
    }

    async fn note(&mut self, content: &Content, url: &str, version: &str, range: Range<u64>) -> Result<()> {
        self.note_content(content, url, version, range).await
    }

    async fn locate(&mut self, contents: &[Option<Content>]) -> Result<Array> {
        self.locate_contents(contents).await
    }
}

impl Store {
    async fn append(&mut self, url: &str, name: &str, version: &str, start: u64, bytes: &[u8]) -> Result<()> {
        let Some(open) = self.open(name, true).await? else { return Ok(()) };
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

    async fn open(&mut self, name: &str, make: bool) -> Result<Option<&mut Open>> {
        if !self.open.contains_key(name) {
            let lock = self.lock(name).await?;
            let Some(file) = self.folder.file(name, make).await? else { return Ok(None) };
            let log = Log::open(file)?;
            let version = log.description().map(|description| write_identity(&description.identity));
            if self.open.len() >= MAX_OPEN
                && let Some(oldest) = self.oldest_open()
            {
                self.open.remove(&oldest);
            }
            let open = Open { log, _lock: lock, version, used_ms: 0.0, is_dirty: false };
            self.open.insert(name.to_owned(), open);
        }
        let mut open = self.open.get_mut(name);
        if let Some(open) = &mut open {
            open.used_ms = Date::now();
        }
        Ok(open)
    }

    fn oldest_open(&self) -> Option<String> {
        let oldest = self.open.iter().min_by(|(_, one), (_, other)| one.used_ms.total_cmp(&other.used_ms))?;
        Some(oldest.0.clone())
    }

    /// Waits until nobody has the log open, and keeps it so.
    async fn lock(&mut self, name: &str) -> Result<Lock> {
        self.give_up(name);
        let lock_name = lock_name(name);
        if let Some(lock) = Lock::try_now(&lock_name).await.map_err(failed)? {
            return Ok(lock);
        }
        // Whoever waits holds nothing: so no two workers wait for each other.
        self.open.clear();
        self.contents = None;
        let mut waiting = pin!(Lock::wait(&lock_name));
        loop {
            self.channel.post_message(&name.into());
            match future::select(waiting.as_mut(), pin!(pause(CALL_INTERVAL_MS))).await {
                Either::Left((lock, _)) => return lock.map_err(failed),
                Either::Right(_) => {}
            }
        }
    }
}

#[wasm_bindgen]
extern "C" {
    /// What all workers of an origin hear.
    pub(super) type BroadcastChannel;
    #[wasm_bindgen(constructor, catch)]
    pub(super) fn new(name: &str) -> Result<BroadcastChannel, JsValue>;
    #[wasm_bindgen(method, js_name = postMessage)]
    fn post_message(this: &BroadcastChannel, message: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onmessage)]
    pub(super) fn set_onmessage(this: &BroadcastChannel, listener: &JsValue);
}

async fn glance(entry: &Entry) -> Option<(Description, u64)> {
    log::glance(&entry.first_bytes(GLANCE_BYTES).await.ok()?)
}

fn lock_name(name: &str) -> String {
    format!("weightstream log {name}")
}

fn now_ms() -> u64 {
    Date::now() as u64
}
