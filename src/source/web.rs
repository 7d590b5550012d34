//! Sources that a web app can open: URLs, Blobs, Files and its own byte sources.

use super::blob::BlobSource;
use super::bytes::{self, ByteSource, BytesBody};
#[cfg(feature = "web-workers")]
use super::cached::{CachedBody, CachedSource, KeyFunction, Report};
#[cfg(feature = "js")]
use super::cross_origin;
use super::fetch::{Client, FetchSource};
use super::files::SelectedFile;
use super::js_buffer::JsBuffer;
#[cfg(feature = "js")]
use super::late_cache::{LateBody, LateCache, LateSource};
use super::mirrors::Mirrors;
use super::stream::StreamBody;
use super::{Body, CacheHints, Host, ModelSource, RangeResponse, Source};
use crate::browser::host::BrowserHost;
#[cfg(feature = "js")]
use crate::browser::timer;
use crate::browser::type_tag::tag;
#[cfg(feature = "web-workers")]
use crate::cache::CacheOption;
#[cfg(feature = "js")]
use crate::deferred::Code;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "web-workers")]
use crate::index::CopiedRange;
#[cfg(feature = "web-workers")]
use futures::FutureExt;
#[cfg(feature = "js")]
use futures::future::{self, Either, LocalBoxFuture};
#[cfg(feature = "js")]
use js_sys::Function;
use js_sys::Reflect;
#[cfg(feature = "js")]
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};

/// A source that a JavaScript value represents.
#[derive(Debug, Clone)]
pub struct WebSource(Origin);

/// A file at a URL that Cross-Origin Storage may have. A trait, so that the main part of the module has nothing of it.
#[cfg(feature = "js")]
pub(super) trait SharedFile {
    /// The file at its URL.
    fn own(&self) -> &WebSource;

    /// Another file, which the same storage may have.
    fn beside(&self, own: WebSource) -> Rc<dyn SharedFile>;

    /// Whether the file is read from the storage, where it cannot change.
    fn is_found(&self) -> bool;

    /// Implements [`CacheHints::expect_whole`].
    fn expect_whole(&self, digest: &Digest);

    /// Implements [`Source::read`].
    fn read(self: Rc<Self>, range: Range<u64>) -> LocalBoxFuture<'static, Result<RangeResponse<WebBody>>>;
}

/// The body of a range of a [`SharedFile`].
#[cfg(feature = "js")]
pub(super) trait SharedBody {
    /// Implements [`Body::read`].
    fn read<'a>(&'a mut self, into: &'a mut JsBuffer, at: Range<u64>) -> LocalBoxFuture<'a, Result<u64>>;

    /// Implements [`Body::is_cached`].
    fn is_cached(&self) -> bool;
}

// Without the fields, whose code for messages nothing else needs.
#[cfg(feature = "js")]
impl fmt::Debug for dyn SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedFile")
    }
}

#[cfg(feature = "js")]
impl fmt::Debug for dyn SharedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedBody")
    }
}

#[derive(Debug, Clone)]
enum Origin {
    /// A URL.
    Fetch(FetchSource),
    /// A URL with a cache.
    #[cfg(feature = "web-workers")]
    Cached(CachedSource),
    /// A URL whose cache is being opened.
    #[cfg(feature = "js")]
    Late(LateSource),
    /// A URL, with or without a cache, whose file Cross-Origin Storage may have.
    #[cfg(feature = "js")]
    Shared(Rc<dyn SharedFile>),
    /// A Blob or File.
    Blob(BlobSource),
    /// A byte source of the caller.
    Bytes(ByteSource),
}

impl WebSource {
    /// Converts a JavaScript value: an absolute URL as a string, a Blob, an array of Files, or an object with
    /// `byteLength` and `slice`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for anything else.
    pub fn new(value: &JsValue, client: Rc<Client>) -> Result<Self> {
        if let Some(url) = value.as_string() {
            return Ok(WebSource(Origin::Fetch(FetchSource::new(url, client))));
        }
        match tag(value).as_str() {
            "[object Blob]" | "[object File]" => {
                return Ok(WebSource(Origin::Blob(BlobSource::new(value.clone().unchecked_into()))));
            }
            "[object Array]" | "[object FileList]" => {
                let files = SelectedFile::all_of(value)?;
                return BlobSource::from_files(files).map(|blob| WebSource(Origin::Blob(blob))).ok_or_else(unknown);
            }
            _ => {}
        }
        let field = |name: &str| Reflect::get(value, &name.into()).ok();
        let length = field("byteLength").and_then(|length| length.as_f64());
        if length.is_some_and(|length| length >= 0.0) && field("slice").is_some_and(|slice| slice.is_function()) {
            return Ok(WebSource(Origin::Bytes(value.clone().unchecked_into())));
        }
        Err(unknown())
    }

    /// Of several files, selects the one to open: the one that references the others. Pins the revision of a file on a
    /// hub.
    ///
    /// # Errors
    /// Those of [`WebSource::pinned`].
    /// `NOT_FOUND` with the names of missing files of the model; `INVALID_ARGUMENT` with the names of files that do not
    /// belong to it.
    pub async fn into_root(self) -> Result<Self> {
        match self.0 {
            Origin::Blob(source) => source.into_root().await.map(|root| WebSource(Origin::Blob(root))),
            other => WebSource(other).pinned().await,
        }
    }

    /// Pins the revision of a file on a hub.
    ///
    /// # Errors
    /// `HTTP` for a repository that does not exist or may not be read; `NOT_FOUND` if it has no such file, or several
    /// models to choose from.
    pub async fn pinned(self) -> Result<Self> {
        match self.0 {
            Origin::Fetch(source) => source.located().await.map(|source| WebSource(Origin::Fetch(source))),
            other => Ok(WebSource(other)),
        }
    }

    /// The URL that names the file in a cache, if it is at one.
    #[cfg(feature = "js")]
    pub(crate) fn cache_url(&self) -> Option<String> {
        match &self.0 {
            Origin::Fetch(source) => Some(source.cache_url()),
            _ => None,
        }
    }

    /// The name under which the file is cached, if it has a cache that is open.
    #[cfg(feature = "js")]
    pub(crate) fn name_in_cache(&self) -> Option<&str> {
        self.0.cached().map(CachedSource::name)
    }

    /// Reads the file from Cross-Origin Storage if that has it. `object` is that of `cache/cross_origin_storage.js`,
    /// and the code for it is loaded.
    #[cfg(feature = "js")]
    pub(crate) fn with_cross_origin(self, object: Option<&JsValue>) -> Self {
        match object {
            Some(object) if self.0.fetched().is_some() => cross_origin::opened(self, object),
            _ => self,
        }
    }

    /// A file at a URL that Cross-Origin Storage may have.
    #[cfg(feature = "js")]
    pub(super) fn shared(file: Rc<dyn SharedFile>) -> Self {
        WebSource(Origin::Shared(file))
    }

    /// Whether the file is requested with headers or credentials.
    #[cfg(feature = "js")]
    pub(super) fn is_private(&self) -> bool {
        self.0.fetched().is_some_and(FetchSource::is_private)
    }

    /// The file with its cache, if that is open.
    #[cfg(feature = "js")]
    pub(super) fn cached(&self) -> Option<&CachedSource> {
        self.0.cached()
    }

    /// Adds mirrors to the source.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is not a URL.
    #[inline(never)] // so that the code is deferred
    pub(crate) fn with_mirrors(self, mirrors: &Rc<Mirrors>) -> Result<Self> {
        match self.0 {
            Origin::Fetch(source) => Ok(WebSource(Origin::Fetch(source.with_mirrors(mirrors)))),
            _ => Err(Error::new(ErrorKind::InvalidArgument, "`mirrors` are only for a source that is a URL")),
        }
    }

    /// Adds a cache to the source if it is a URL and a cache is available. `report` receives the error otherwise.
    ///
    /// # Errors
    /// Those of [`KeyFunction::name`].
    #[cfg(feature = "web-workers")]
    pub(crate) async fn with_cache(
        self,
        option: CacheOption,
        key_function: KeyFunction,
        report: Rc<Report>,
    ) -> Result<Self> {
        let Origin::Fetch(source) = self.0 else { return Ok(self) };
        #[cfg(feature = "js")]
        if !load_cache_code(&report).await {
            return Ok(WebSource(Origin::Fetch(source)));
        }
        let cached = CachedSource::open(source.clone(), option, key_function, report).await?;
        Ok(WebSource(cached.map_or(Origin::Fetch(source), Origin::Cached)))
    }

    /// [`WebSource::with_cache`], where nothing is cached: the first reads do not wait for the cache. `release`
    /// releases the lock that this page has for the download.
    ///
    /// # Errors
    /// Those of [`WebSource::with_cache`].
    #[cfg(feature = "js")]
    pub(crate) async fn with_empty_cache(
        self,
        option: CacheOption,
        key_function: KeyFunction,
        report: Rc<Report>,
        release: &Function,
    ) -> Result<Self> {
        if let Origin::Fetch(source) = &self.0
            && key_function.0.is_none()
            && !option.is_of_caller()
        {
            let (option, of_cache) = (option.clone(), Rc::clone(&report));
            let opening = async move {
                let is_loaded = load_cache_code(&of_cache).await;
                if is_loaded { super::cached::open(option, of_cache).await } else { None }
            };
            if let Some(source) = LateCache::begin(source, opening.boxed_local(), &report, release) {
                return Ok(WebSource(Origin::Late(source)));
            }
        }
        release.call0(&JsValue::UNDEFINED).ok(); // it does not throw
        self.with_cache(option, key_function, report).await
    }
}

/// How long a load waits for the code of the cache before it goes on without a cache.
#[cfg(feature = "js")]
const MAX_CODE_WAIT_MS: u64 = 10_000;

/// Loads the code of the cache. Returns false, and reports the error, if there is none.
#[cfg(feature = "js")]
async fn load_cache_code(report: &Report) -> bool {
    let loading = crate::browser::deferred::load(Code::Cache).boxed_local();
    let loaded = match future::select(loading, timer::pause(MAX_CODE_WAIT_MS).boxed_local()).await {
        Either::Left((loaded, _)) => loaded,
        Either::Right(_) => {
            let what = format!("weightstream_cache.wasm did not arrive within {} s", MAX_CODE_WAIT_MS / 1000);
            Err(Error::new(ErrorKind::Network, what))
        }
    };
    if let Err(error) = &loaded {
        report.note_missing_cache(error);
        report.set_caching(false);
    }
    loaded.is_ok()
}

impl Source for WebSource {
    type Body = WebBody;

    fn name(&self) -> &str {
        match (self.0.fetched(), &self.0) {
            (Some(source), _) => source.name(),
            (None, Origin::Blob(source)) => source.name(),
            (None, _) => "the byte source",
        }
    }

    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<WebBody>> {
        match &self.0 {
            Origin::Fetch(source) => Ok(source.read(range).await?.map(|body| WebBody(BodyOrigin::Stream(body)))),
            #[cfg(feature = "web-workers")]
            Origin::Cached(source) => {
                // Boxed to avoid a copy of its code at every call site.
                let answer = source.read(range).boxed_local().await?;
                Ok(answer.map(|body| WebBody(BodyOrigin::Cached(Box::new(body)))))
            }
            #[cfg(feature = "js")]
            Origin::Late(source) => Ok(source.read(range).await?.map(|body| WebBody(BodyOrigin::Late(body)))),
            #[cfg(feature = "js")]
            Origin::Shared(file) => Rc::clone(file).read(range).await,
            Origin::Blob(source) => Ok(source.read(range)?.map(|body| WebBody(BodyOrigin::Stream(body)))),
            Origin::Bytes(source) => Ok(bytes::read(source, range)?.map(|body| WebBody(BodyOrigin::Bytes(body)))),
        }
    }

    fn is_immutable(&self) -> bool {
        match &self.0 {
            Origin::Blob(_) | Origin::Bytes(_) => true,
            #[cfg(feature = "js")]
            Origin::Shared(file) => file.is_found(),
            _ => false,
        }
    }

    fn host(&self) -> &dyn Host {
        &BrowserHost
    }
}

impl ModelSource for WebSource {
    fn file_name(&self) -> Option<String> {
        match (self.0.fetched(), &self.0) {
            (Some(source), _) => source.file_name(),
            (None, Origin::Blob(source)) => source.file_name(),
            (None, _) => None,
        }
    }

    fn part(&self, path: &str) -> Result<Self> {
        match (self.0.fetched(), &self.0) {
            (Some(source), _) => self.0.with(source.part(path)?).map(WebSource),
            (None, Origin::Blob(source)) => Ok(WebSource(Origin::Blob(source.part(path)?))),
            (None, _) => {
                let what = format!("the model's file \"{path}\" is missing, because a byte source is a single file");
                let error = Error::new(ErrorKind::Unsupported, what);
                Err(error.advise("Pass a URL or all files of the model instead."))
            }
        }
    }

    fn part_at_url(&self, url: &str, path: &str) -> Result<Self> {
        match (self.0.fetched(), &self.0) {
            (Some(source), _) => self.0.with(source.part_at_url(url)).map(WebSource),
            (None, Origin::Blob(source)) => Ok(WebSource(Origin::Blob(source.part_at_url(url, path)?))),
            (None, _) => self.part(path),
        }
    }

    fn stated_digest(&self) -> Option<Digest> {
        self.0.fetched()?.stated_digest()
    }
}

impl Origin {
    /// The source of bytes from a URL.
    #[inline(never)] // it is called in many places
    fn fetched(&self) -> Option<&FetchSource> {
        match self {
            Origin::Fetch(source) => Some(source),
            #[cfg(feature = "web-workers")]
            Origin::Cached(source) => Some(source.source()),
            #[cfg(feature = "js")]
            Origin::Late(source) => Some(source.source()),
            #[cfg(feature = "js")]
            Origin::Shared(file) => file.own().0.fetched(),
            Origin::Blob(_) | Origin::Bytes(_) => None,
        }
    }

    /// Another URL, with the same cache.
    #[inline(never)]
    fn with(&self, source: FetchSource) -> Result<Self> {
        match self {
            #[cfg(feature = "web-workers")]
            Origin::Cached(cached) => cached.with(source).map(Origin::Cached),
            #[cfg(feature = "js")]
            Origin::Late(late) => Ok(Origin::Late(late.with(source))),
            #[cfg(feature = "js")]
            Origin::Shared(file) => Ok(Origin::Shared(file.beside(WebSource(file.own().0.with(source)?)))),
            _ => Ok(Origin::Fetch(source)),
        }
    }
}

#[cfg(feature = "web-workers")]
impl Origin {
    /// The source with its cache, if that is open.
    #[inline(never)] // it is called in many places
    fn cached(&self) -> Option<&CachedSource> {
        match self {
            Origin::Cached(source) => Some(source),
            #[cfg(feature = "js")]
            Origin::Late(source) => source.cached(),
            #[cfg(feature = "js")]
            Origin::Shared(file) => file.own().0.cached(),
            _ => None,
        }
    }
}

#[cfg(not(feature = "web-workers"))]
impl CacheHints for WebSource {
    fn reject(&self) {
        if let Some(source) = self.0.fetched() {
            source.reject();
        }
    }
}

/// Until a cache is open, it has nothing, so that only what it must store later matters to it.
#[cfg(feature = "web-workers")]
impl CacheHints for WebSource {
    fn expect_whole(&self, digest: &Digest) {
        #[cfg(feature = "js")]
        if let Origin::Shared(file) = &self.0 {
            file.expect_whole(digest);
        }
        if let Some(source) = self.0.cached() {
            source.expect_whole(digest);
        }
    }

    fn expect(&self, range: Range<u64>, digest: &Digest) {
        if let Some(source) = self.0.cached() {
            source.expect(range, digest);
        }
    }

    fn expect_copies(&self, files: &[Self], ranges: &[CopiedRange]) {
        let Some(source) = self.0.cached() else { return };
        if let Some(files) = files.iter().map(|file| file.0.cached().cloned()).collect::<Option<Vec<_>>>() {
            source.expect_copies(&files, ranges);
        }
    }

    async fn holds(&self, digest: &Digest) -> bool {
        match self.0.cached() {
            Some(source) => source.holds(digest).await,
            None => false,
        }
    }

    async fn has_contents(&self, digests: &[Digest]) -> Vec<bool> {
        match self.0.cached() {
            Some(source) => source.has_contents(digests).await,
            None => vec![false; digests.len()],
        }
    }

    async fn read_content(
        &self,
        digest: &Digest,
        byte_length: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        match self.0.cached() {
            Some(source) => source.read_content(digest, byte_length, take).await,
            None => Ok(false),
        }
    }

    fn forget_content(&self, digest: &Digest) {
        if let Some(source) = self.0.cached() {
            source.forget_content(digest);
        }
    }

    fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        if let Some(source) = self.0.cached() {
            source.expect_buffers(ranges);
        }
    }

    fn confirm(&self, range: Range<u64>, digest: &Digest) {
        match (self.0.cached(), &self.0) {
            (Some(source), _) => source.confirm(range, digest),
            #[cfg(feature = "js")]
            (None, Origin::Late(source)) => source.confirm(range, digest),
            #[cfg(feature = "js")]
            (None, Origin::Shared(file)) => file.own().confirm(range, digest),
            _ => {}
        }
    }

    fn reject(&self) {
        if let Some(source) = self.0.fetched() {
            source.reject();
        }
        match (self.0.cached(), &self.0) {
            (Some(source), _) => source.reject(),
            #[cfg(feature = "js")]
            (None, Origin::Late(source)) => source.reject(),
            #[cfg(feature = "js")]
            (None, Origin::Shared(file)) => file.own().reject(),
            _ => {}
        }
    }
}

fn unknown() -> Error {
    let what = "the source is not a URL, a Blob, a File, an array of Files or an object with byteLength and slice()";
    Error::new(ErrorKind::InvalidArgument, what)
}

/// The body of a [`WebSource`].
#[derive(Debug)]
pub struct WebBody(BodyOrigin);

#[derive(Debug)]
enum BodyOrigin {
    /// The body of a URL or Blob.
    Stream(StreamBody),
    /// The body of a URL with a cache.
    #[cfg(feature = "web-workers")]
    Cached(Box<CachedBody>),
    /// The body of a URL whose cache is being opened.
    #[cfg(feature = "js")]
    Late(LateBody),
    /// The body of a URL whose file Cross-Origin Storage may have.
    #[cfg(feature = "js")]
    Shared(Box<dyn SharedBody>),
    /// The body of a byte source.
    Bytes(BytesBody),
}

#[cfg(feature = "js")]
impl WebBody {
    /// The body of a URL or Blob.
    pub(super) fn of_stream(body: StreamBody) -> Self {
        WebBody(BodyOrigin::Stream(body))
    }

    /// The body of a [`SharedFile`].
    pub(super) fn shared(body: Box<dyn SharedBody>) -> Self {
        WebBody(BodyOrigin::Shared(body))
    }
}

impl Body for WebBody {
    type Buffer = JsBuffer;

    async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        match &mut self.0 {
            BodyOrigin::Stream(body) => body.read(into, at).await,
            #[cfg(feature = "web-workers")]
            BodyOrigin::Cached(body) => body.read(into, at).boxed_local().await,
            #[cfg(feature = "js")]
            BodyOrigin::Late(body) => body.read(into, at).await,
            #[cfg(feature = "js")]
            BodyOrigin::Shared(body) => body.read(into, at).await,
            BodyOrigin::Bytes(body) => body.read(into, at).await,
        }
    }

    #[cfg(feature = "web-workers")]
    fn is_cached(&self) -> bool {
        match &self.0 {
            BodyOrigin::Cached(body) => body.is_cached(),
            #[cfg(feature = "js")]
            BodyOrigin::Late(body) => body.is_cached(),
            #[cfg(feature = "js")]
            BodyOrigin::Shared(body) => body.is_cached(),
            _ => false,
        }
    }
}
