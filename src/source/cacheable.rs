//! A URL whose bytes are cached. The cache may still be starting: its code and its worker take longer to load than the
//! first bytes of a model.
//!
//! If nothing is cached yet, as at the first visit of a page, reads do not wait for the cache. Their bytes come from
//! the server, are copied, and are cached once the cache has started. Otherwise, cached bytes must not be downloaded
//! again, so the first read waits. So does a read of a file that another tab is downloading.

mod early;

use super::RangeResponse;
use super::cached::{CachedBody, CachedSource, Hint, KeyFunction, Report};
use super::fetch::FetchSource;
use super::js_buffer::JsBuffer;
use super::stream::StreamBody;
use super::{Body, CacheHints};
use crate::browser::lock::Lock;
use crate::cache::client::Client;
use crate::cache::{CacheOption, key};
use crate::digest::Digest;
use crate::error::Result;
use crate::index::CopiedRange;
use early::{EarlyBody, Pending, apply};
use futures::future::{self, FutureExt, LocalBoxFuture, Shared};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

/// The file with its cache, once the cache has started; `None` if there is no cache.
type Ready = Shared<LocalBoxFuture<'static, Option<CachedSource>>>;

thread_local! {
    /// The files that are read before the cache has started, by their names in it. Later loads of such a file wait
    /// until its bytes are cached.
    static EARLY: RefCell<HashMap<String, Ready>> = RefCell::default();
}

/// How the files of a loader are cached.
#[derive(Debug)]
pub(crate) struct CacheSettings {
    pub(crate) option: CacheOption,
    pub(crate) key_function: KeyFunction,
    /// Receives the errors of the cache.
    pub(crate) report: Rc<Report>,
    /// Whether it is known that nothing is cached.
    pub(crate) is_empty: bool,
}

/// A file at a URL, and its cache.
#[derive(Debug, Clone)]
pub(crate) struct CacheableSource {
    source: FetchSource,
    start: Rc<CacheStart>,
    /// The name of the file in the cache.
    name: Rc<str>,
    /// What is passed to the cache once it has started.
    pending: Rc<Pending>,
    ready: Ready,
    /// Whether reads need not wait for the cache.
    may_read_early: bool,
    /// Whether an early read has begun to start the cache.
    is_starting: Rc<Cell<bool>>,
}

/// The start of the cache, which all files of a loader share.
#[derive(Debug)]
struct CacheStart {
    key_function: KeyFunction,
    report: Rc<Report>,
    is_empty: bool,
    client: Shared<LocalBoxFuture<'static, Option<Rc<Client>>>>,
    /// The bytes of all files that wait for the cache.
    pending_bytes: Rc<Cell<u64>>,
}

impl CacheableSource {
    /// Caches the file of `source`. Waits for the cache, unless it is empty.
    ///
    /// # Errors
    /// Those of [`KeyFunction::name`].
    pub(crate) async fn new(source: FetchSource, settings: CacheSettings) -> Result<Self> {
        let CacheSettings { option, key_function, report, is_empty } = settings;
        // Until it has started, the cache of a browser is assumed to work.
        report.set_caching(is_empty);
        let client = start(option, Rc::clone(&report)).boxed_local().shared();
        report.set_start(client.clone());
        let source = Self::started_by(
            source,
            Rc::new(CacheStart { key_function, report, is_empty, client, pending_bytes: Rc::default() }),
        )?;
        if !source.may_read_early {
            source.ready.clone().await;
        }
        Ok(source)
    }

    fn started_by(source: FetchSource, start: Rc<CacheStart>) -> Result<Self> {
        let name = start.key_function.name(&source.cache_url())?;
        let earlier = EARLY.with_borrow(|early| early.get(&name).cloned());
        let may_read_early = start.is_empty && earlier.is_none();
        let pending = Rc::new(Pending::new(Rc::clone(&start.pending_bytes)));
        let waiting = cached(source.clone(), name.clone(), Rc::clone(&start), Rc::clone(&pending), earlier);
        let ready = waiting.boxed_local().shared();
        let is_starting = Rc::default();
        Ok(CacheableSource { source, start, name: name.into(), pending, ready, may_read_early, is_starting })
    }

    /// The source of bytes that are not cached.
    pub(crate) fn source(&self) -> &FetchSource {
        &self.source
    }

    /// The name of the file in the cache; `None` if there is no cache.
    #[cfg(feature = "js")]
    pub(crate) fn name(&self) -> Option<&str> {
        (!matches!(self.ready.peek(), Some(None))).then_some(&self.name)
    }

    /// Caches another file of the model in the same cache.
    ///
    /// # Errors
    /// Those of [`KeyFunction::name`].
    pub(crate) fn with(&self, source: FetchSource) -> Result<Self> {
        Self::started_by(source, Rc::clone(&self.start))
    }

    /// Implements [`Source::read`](super::Source::read).
    ///
    /// # Errors
    /// Those of [`Source::read`](super::Source::read). A cache error does not fail the read.
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<RangeResponse<CacheableBody>> {
        if self.may_read_early && !self.has_started() {
            let (is_leased, answer) = future::join(self.take_lease(), self.source.read(range.clone())).await;
            if is_leased {
                let answer = answer?;
                // Only now, so that the code of the cache does not compete with the first bytes.
                self.start_early();
                return Ok(EarlyBody::start(self, answer).map(|body| CacheableBody::Early(Box::new(body))));
            }
        }
        match self.ready.clone().await {
            Some(cached) => {
                apply(Rc::clone(&self.pending), cached.clone()).await;
                let answer = cached.read(range).boxed_local().await?;
                Ok(answer.map(|body| CacheableBody::Cached(Box::new(body))))
            }
            None => Ok(self.source.read(range).await?.map(CacheableBody::Stream)),
        }
    }

    /// Takes the lease of the download, unless this page has it. Returns `false` if another tab has it. Without Web
    /// Locks, tabs do not know of each other.
    async fn take_lease(&self) -> bool {
        if self.pending.is_leased() {
            return true;
        }
        let key = key::join(self.source.partition().as_deref(), &self.name);
        match Lock::try_now(&key::lease_name(&key)).await {
            Ok(Some(lock)) => {
                self.pending.set_lock(lock);
                true
            }
            Ok(None) => self.pending.is_leased(), // by another read of this page
            Err(_) => true,
        }
    }

    /// Whether the cache has started. Then another tab or loader may have cached something.
    fn has_started(&self) -> bool {
        self.start.client.peek().is_some() || self.ready.peek().is_some()
    }

    /// Starts the cache, once.
    fn start_early(&self) {
        if self.has_started() || self.is_starting.replace(true) {
            return;
        }
        let ready = self.ready.clone();
        EARLY.with_borrow_mut(|early| early.insert(self.name.to_string(), ready.clone()));
        let name = Rc::clone(&self.name);
        spawn_local(async move {
            ready.clone().await;
            EARLY.with_borrow_mut(|early| {
                if early.get(&*name).is_some_and(|of_name| of_name.ptr_eq(&ready)) {
                    early.remove(&*name);
                }
            });
        });
    }

    /// Passes a hint to the cache, now or once it has started.
    fn hint(&self, hint: Hint) {
        match self.ready.peek() {
            Some(Some(cached)) => cached.accept(hint),
            Some(None) => {}
            None => self.pending.push_hint(hint),
        }
    }
}

impl CacheHints for CacheableSource {
    fn expect_whole(&self, digest: &Digest) {
        self.hint(Hint::ExpectWhole(*digest));
    }

    fn expect(&self, range: Range<u64>, digest: &Digest) {
        self.hint(Hint::Expect(range, *digest));
    }

    fn expect_copies(&self, files: &[Self], ranges: &[CopiedRange]) {
        self.pending.push_copies(files.to_vec(), ranges.to_vec());
    }

    fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        self.hint(Hint::ExpectBuffers(ranges));
    }

    fn confirm(&self, range: Range<u64>, digest: &Digest) {
        self.hint(Hint::Confirm(range, *digest));
    }

    fn reject(&self) {
        self.hint(Hint::Reject);
    }
}

/// Waits until everything that was read before the cache had started is in it.
#[cfg(feature = "js")] // reads of other apps wait for the cache
pub(crate) async fn settle_early() {
    let all: Vec<_> = EARLY.with_borrow(|early| early.values().cloned().collect());
    for ready in all {
        ready.await;
    }
}

/// Starts the cache. `None` if there is none, which `report` explains.
async fn start(option: CacheOption, report: Rc<Report>) -> Option<Rc<Client>> {
    #[cfg(feature = "js")]
    if let Err(error) = code::load().await {
        report.note(&error);
        report.set_caching(false);
        return None;
    }
    let observed = Rc::clone(&report);
    let option = option.with_observer(move |error| observed.note(error));
    let (client, error) = option.open().boxed_local().await;
    if let Some(error) = error {
        report.note(&error);
    }
    report.set_caching(client.is_some());
    client
}

/// The file with its cache, to which everything pending was passed. `earlier` is another load of the file.
async fn cached(
    source: FetchSource,
    name: String,
    start: Rc<CacheStart>,
    pending: Rc<Pending>,
    earlier: Option<Ready>,
) -> Option<CachedSource> {
    if let Some(earlier) = earlier {
        earlier.await;
    }
    let client = start.client.clone().await;
    let lock = pending.take_lock();
    let cached = client.map(|client| CachedSource::new(source, client, &name, Rc::clone(&start.report)));
    match &cached {
        Some(cached) => {
            let _lease = lock.map(|lock| cached.hold_lease(lock)); // the writers hold it, too
            apply(Rc::clone(&pending), cached.clone()).await;
        }
        None => pending.clear(),
    }
    cached
}

/// The code of the cache, which is a part of its own in the npm package.
#[cfg(feature = "js")]
mod code {
    use crate::browser::{deferred, timer};
    use crate::deferred::Code;
    use crate::error::{Error, ErrorKind, Result};
    use futures::future::{self, Either, FutureExt};

    /// How long a load waits for the code before it goes on without a cache.
    const MAX_WAIT_MS: u64 = 10_000;

    pub(super) async fn load() -> Result<()> {
        let loading = deferred::load(Code::Cache).boxed_local();
        match future::select(loading, timer::pause(MAX_WAIT_MS).boxed_local()).await {
            Either::Left((loaded, _)) => loaded,
            Either::Right(_) => {
                let what = format!("weightstream_cache.wasm did not arrive within {} s", MAX_WAIT_MS / 1000);
                Err(Error::new(ErrorKind::Network, what))
            }
        }
    }
}

/// The body of a range of a [`CacheableSource`].
#[derive(Debug)]
pub(crate) enum CacheableBody {
    /// There is no cache.
    Stream(StreamBody),
    /// The read has begun before the cache has started.
    Early(Box<EarlyBody>),
    Cached(Box<CachedBody>),
}

impl Body for CacheableBody {
    type Buffer = JsBuffer;

    async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        match self {
            CacheableBody::Stream(body) => body.read(into, at).await,
            CacheableBody::Early(body) => body.read(into, at).boxed_local().await,
            CacheableBody::Cached(body) => body.read(into, at).boxed_local().await,
        }
    }

    fn is_cached(&self) -> bool {
        matches!(self, CacheableBody::Cached(body) if body.is_cached())
    }
}
