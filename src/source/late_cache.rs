//! A URL whose cache is opened while its first bytes are read.
//!
//! The code of the cache and its worker take longer to start than a first tensor takes to arrive. If the storage is
//! empty, nothing can be read from it: bytes come from the server, and copies of them are kept in memory until the
//! cache is open. It then stores them, and takes over the files and the bodies that are still being read.

use super::cached::{CachedBody, CachedSource, Event, KeyFunction, Report};
use super::fetch::FetchSource;
use super::js_buffer::JsBuffer;
use super::stream::StreamBody;
use super::{Body as _, RangeResponse};
use crate::browser::timer::pause;
use crate::cache::client::Client;
use crate::cache::pending;
use crate::digest::Digest;
use crate::error::Result;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use js_sys::{Function, Uint8Array};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

/// Maximum total length of the copies: what a fast connection delivers until the cache is open. Further reads wait.
const MAX_COPIED_BYTES: u64 = 8 << 20;

/// How long they wait, which must be less than the time without data after which a connection counts as broken.
const MAX_WAIT_MS: u64 = 1_000;

/// The cache is opened when the second read begins, because the first one is that of the model's head. A model that is
/// complete in its head has no other read.
const START_DELAY_MS: u64 = 200;

/// The cache of one loader, and what it has missed.
#[derive(Debug)]
pub(super) struct LateCache {
    files: RefCell<Vec<Rc<LateFile>>>,
    /// Once it is open. `None` if there is no cache.
    client: OnceCell<Option<Rc<Client>>>,
    report: Rc<Report>,
    has_read: Cell<bool>,
    copied_bytes: Cell<u64>,
    /// Whether the cache took too long to open.
    is_slow: Cell<bool>,
}

/// A file at a URL, which [`LateCache`] will cache.
#[derive(Debug, Clone)]
pub(super) struct LateSource(Rc<LateFile>);

#[derive(Debug)]
struct LateFile {
    source: FetchSource,
    cache: Rc<LateCache>,
    /// Releases the lock of the download.
    release: RefCell<Option<Function>>,
    missed: RefCell<VecDeque<Event>>,
    /// Once the cache has what it missed. `None` if there is no cache.
    cached: OnceCell<Option<CachedSource>>,
}

impl LateCache {
    /// Begins to read the file of `source`, whose lock `release` releases. `opening` opens the cache, and returns
    /// `None` if there is none. `None` if the cache must be open first: another loader of this page has come before, or
    /// the requests have credentials.
    pub(super) fn begin(
        source: &FetchSource,
        opening: LocalBoxFuture<'static, Option<Rc<Client>>>,
        report: &Rc<Report>,
        release: &Function,
    ) -> Option<LateSource> {
        if !pending::may_begin() || source.has_credentials() {
            return None;
        }
        report.set_caching(true);
        let (files, client, has_read, copied_bytes, is_slow) = Default::default();
        let cache = LateCache { files, client, report: Rc::clone(report), has_read, copied_bytes, is_slow };
        let cache = Rc::new(cache);
        pending::begin(store(Rc::clone(&cache), opening).boxed_local());
        spawn_local(async {
            pause(START_DELAY_MS).await;
            pending::start();
        });
        let first = LateSource::new(source.clone(), cache);
        *first.0.release.borrow_mut() = Some(release.clone());
        Some(first)
    }

    /// Waits for the cache if there are as many copies as may be. If it takes long, goes on without copies: the next
    /// visit then downloads what they lack.
    #[inline(never)]
    fn wait_if_full(&self) -> LocalBoxFuture<'_, ()> {
        let wait = async {
            if self.copied_bytes.get() >= MAX_COPIED_BYTES && !self.is_slow.get() {
                let stored = pending::stored();
                let waited = future::select(stored, pause(MAX_WAIT_MS).boxed_local()).await;
                self.is_slow.set(matches!(waited, Either::Right(_)));
            }
        };
        wait.boxed_local()
    }
}

/// Opens the cache, and passes to it what it has missed.
async fn store(cache: Rc<LateCache>, opening: LocalBoxFuture<'static, Option<Rc<Client>>>) {
    let client = opening.await;
    if let Some(client) = &client {
        stored_in(&cache, client).await;
    }
    cache.client.set(client).ok(); // it was not set before
    for file in cache.files.take() {
        file.missed.take();
        file.release.take().map(|release| release.call0(&JsValue::UNDEFINED)); // it does not throw
        file.cached.get_or_init(|| None);
    }
    cache.copied_bytes.set(0);
}

fn stored_in<'a>(cache: &'a LateCache, client: &'a Rc<Client>) -> LocalBoxFuture<'a, ()> {
    let store = async {
        let mut done = 0;
        loop {
            let next = cache.files.borrow().get(done).cloned();
            let Some(file) = next else { return };
            let cached = file.cached_in(client);
            if let Some(cached) = &cached {
                cached.take_over(file.release.take(), &mut || file.missed.borrow_mut().pop_front()).await;
            }
            file.cached.set(cached).ok(); // it was not set before
            done += 1;
        }
    };
    store.boxed_local()
}

impl LateFile {
    fn cached_in(&self, client: &Rc<Client>) -> Option<CachedSource> {
        let (source, report) = (self.source.clone(), Rc::clone(&self.cache.report));
        CachedSource::new(source, Rc::clone(client), KeyFunction::default(), report).ok() // it has no function to fail
    }

    fn miss(&self, event: impl FnOnce() -> Event) {
        if self.cached.get().is_none() {
            self.missed.borrow_mut().push_back(event());
        }
    }
}

impl LateSource {
    fn new(source: FetchSource, cache: Rc<LateCache>) -> Self {
        let (release, missed, cached) = Default::default();
        let file = Rc::new(LateFile { source, cache, release, missed, cached });
        match file.cache.client.get() {
            Some(client) => {
                let cached = client.as_ref().and_then(|client| file.cached_in(client));
                file.cached.set(cached).ok(); // the file is new
            }
            None => file.cache.files.borrow_mut().push(Rc::clone(&file)),
        }
        LateSource(file)
    }

    /// The source of bytes that are not cached.
    pub(super) fn source(&self) -> &FetchSource {
        &self.0.source
    }

    /// Another file of the model.
    pub(super) fn with(&self, source: FetchSource) -> Self {
        LateSource::new(source, Rc::clone(&self.0.cache))
    }

    /// The file with its cache, once it is open.
    pub(super) fn cached(&self) -> Option<&CachedSource> {
        self.0.cached.get().and_then(Option::as_ref)
    }

    /// Implements [`CacheHints::confirm`](super::CacheHints::confirm) until the cache is open.
    pub(super) fn confirm(&self, range: Range<u64>, digest: &Digest) {
        self.0.miss(|| Event::Confirmed { range, digest: *digest });
    }

    /// Implements [`CacheHints::reject`](super::CacheHints::reject) until the cache is open.
    pub(super) fn reject(&self) {
        self.0.miss(|| Event::Rejected);
    }

    /// Implements [`Source::read`](super::Source::read).
    ///
    /// # Errors
    /// Those of [`Source::read`](super::Source::read).
    pub(super) async fn read(&self, range: Range<u64>) -> Result<RangeResponse<LateBody>> {
        let file = &self.0;
        if file.cache.has_read.replace(true) && file.cached.get().is_none() {
            pending::start();
        }
        if let Some(cached) = self.cached() {
            return Ok(cached.read(range).boxed_local().await?.map(|body| LateBody::Cached(Box::new(body))));
        }
        let answer = file.source.read(range.clone()).await?;
        let mut stream = None;
        let response = Rc::new(answer.map(|body| stream = Some(body)));
        let (position, file) = (response.start, Rc::clone(file));
        Ok(RangeResponse::clone(&response).map(|()| LateBody::Early(Early { file, range, response, position, stream })))
    }
}

/// The body of a range of a [`LateSource`].
#[derive(Debug)]
pub(super) enum LateBody {
    /// It was requested before the cache was open.
    Early(Early),
    Cached(Box<CachedBody>),
}

#[derive(Debug)]
pub(super) struct Early {
    file: Rc<LateFile>,
    /// What was requested.
    range: Range<u64>,
    response: Rc<RangeResponse<()>>,
    position: u64,
    /// Until a [`CachedBody`] has it.
    stream: Option<StreamBody>,
}

impl LateBody {
    /// Implements [`Body::read`](super::Body::read).
    ///
    /// # Errors
    /// Those of [`Body::read`](super::Body::read).
    pub(super) async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        let early = match self {
            LateBody::Early(early) => early,
            LateBody::Cached(body) => return body.read(into, at).boxed_local().await,
        };
        let (count, body) = early.read(into, at).await?;
        if let Some(body) = body {
            *self = LateBody::Cached(Box::new(body));
        }
        Ok(count)
    }

    /// Whether the last read returned bytes from the cache.
    pub(super) fn is_cached(&self) -> bool {
        matches!(self, LateBody::Cached(body) if body.is_cached())
    }
}

impl Early {
    /// Reads the next bytes. Also returns the body that goes on, if the cache is open now.
    async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<(u64, Option<CachedBody>)> {
        self.file.cache.wait_if_full().await;
        let Some(stream) = &mut self.stream else { return Ok((0, None)) };
        let count = stream.read(into, at.clone()).await?;
        if count == 0 {
            return Ok((0, None));
        }
        into.check_attached()?; // the caller may have detached its memory
        let start = self.position;
        self.position += count;
        match self.file.cached.get() {
            None => self.copy(start, &into.bytes.subarray(at.start as u32, (at.start + count) as u32)),
            Some(None) => {} // there is no cache
            Some(Some(cached)) => {
                let Some(stream) = self.stream.take() else { return Ok((count, None)) };
                let received = (&*into, at.start, count);
                let resumed = cached.resumed(&self.range, &self.response, stream, self.position, received);
                return Ok((count, Some(resumed.boxed_local().await)));
            }
        }
        Ok((count, None))
    }

    fn copy(&self, start: u64, bytes: &Uint8Array) {
        let LateCache { copied_bytes: copied, is_slow, .. } = &*self.file.cache;
        // What several connections were reading when the copies became too many is copied, too: they wait after it.
        if !is_slow.get() || copied.get() < MAX_COPIED_BYTES {
            copied.set(copied.get() + u64::from(bytes.length()));
            let (response, bytes) = (Rc::clone(&self.response), bytes.slice(0, bytes.length()));
            self.file.miss(|| Event::Received { response, start, bytes });
        }
    }
}
