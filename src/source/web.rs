//! Sources that a web app can open: URLs, Blobs, Files and its own byte sources.

use super::blob::BlobSource;
use super::bytes::{self, ByteSource, BytesBody};
#[cfg(feature = "web-workers")]
use super::cached::{CachedBody, CachedSource, KeyFunction, Report};
use super::fetch::{Client, FetchSource};
use super::files::SelectedFile;
use super::js_buffer::JsBuffer;
use super::stream::StreamBody;
use super::{Body, CacheHints, Host, ModelSource, RangeResponse, Source};
use crate::browser::host::BrowserHost;
#[cfg(all(feature = "js", feature = "web-workers"))]
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
#[cfg(all(feature = "js", feature = "web-workers"))]
use futures::future::{self, Either};
use js_sys::Reflect;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};

/// A source that a JavaScript value represents.
#[derive(Debug, Clone)]
pub struct WebSource(Origin);

#[derive(Debug, Clone)]
enum Origin {
    /// A URL.
    Fetch(FetchSource),
    /// A URL with a cache.
    #[cfg(feature = "web-workers")]
    Cached(CachedSource),
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

    /// The name under which the file is cached, if it has a cache.
    #[cfg(feature = "js")]
    pub(crate) fn name_in_cache(&self) -> Option<&str> {
        match &self.0 {
            Origin::Cached(source) => Some(source.name()),
            _ => None,
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
        if let Err(error) = load_cache_code().await {
            report.note_missing_cache(&error);
            report.set_caching(false);
            return Ok(WebSource(Origin::Fetch(source)));
        }
        // Errors of `cacheKey` are returned before the cache is started, and even if it cannot be.
        key_function.name(&source.cache_url())?;
        let observed = Rc::clone(&report);
        let option = option.with_observer(move |error| observed.note(error));
        let (cache, error) = option.open().boxed_local().await;
        match &error {
            Some(error) if cache.is_none() => report.note_missing_cache(error),
            Some(error) => report.note(error),
            None => {}
        }
        report.set_caching(cache.is_some());
        Ok(WebSource(match cache {
            Some(cache) => Origin::Cached(CachedSource::new(source, cache, key_function, report)?),
            None => Origin::Fetch(source),
        }))
    }
}

/// How long a load waits for the code of the cache before it goes on without a cache.
#[cfg(all(feature = "js", feature = "web-workers"))]
const MAX_CODE_WAIT_MS: u64 = 10_000;

#[cfg(all(feature = "js", feature = "web-workers"))]
async fn load_cache_code() -> Result<()> {
    let loading = crate::browser::deferred::load(Code::Cache).boxed_local();
    match future::select(loading, timer::pause(MAX_CODE_WAIT_MS).boxed_local()).await {
        Either::Left((loaded, _)) => loaded,
        Either::Right(_) => {
            let what = format!("weightstream_cache.wasm did not arrive within {} s", MAX_CODE_WAIT_MS / 1000);
            Err(Error::new(ErrorKind::Network, what))
        }
    }
}

impl Source for WebSource {
    type Body = WebBody;

    fn name(&self) -> &str {
        match &self.0 {
            Origin::Fetch(source) => source.name(),
            #[cfg(feature = "web-workers")]
            Origin::Cached(source) => source.source().name(),
            Origin::Blob(source) => source.name(),
            Origin::Bytes(_) => "the byte source",
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
            Origin::Blob(source) => Ok(source.read(range)?.map(|body| WebBody(BodyOrigin::Stream(body)))),
            Origin::Bytes(source) => Ok(bytes::read(source, range)?.map(|body| WebBody(BodyOrigin::Bytes(body)))),
        }
    }

    fn is_immutable(&self) -> bool {
        matches!(self.0, Origin::Blob(_) | Origin::Bytes(_))
    }

    fn host(&self) -> &dyn Host {
        &BrowserHost
    }
}

impl ModelSource for WebSource {
    fn file_name(&self) -> Option<String> {
        match &self.0 {
            Origin::Fetch(source) => source.file_name(),
            #[cfg(feature = "web-workers")]
            Origin::Cached(source) => source.source().file_name(),
            Origin::Blob(source) => source.file_name(),
            Origin::Bytes(_) => None,
        }
    }

    fn part(&self, path: &str) -> Result<Self> {
        match &self.0 {
            Origin::Fetch(source) => Ok(WebSource(Origin::Fetch(source.part(path)?))),
            #[cfg(feature = "web-workers")]
            Origin::Cached(source) => Ok(WebSource(Origin::Cached(source.with(source.source().part(path)?)?))),
            Origin::Blob(source) => Ok(WebSource(Origin::Blob(source.part(path)?))),
            Origin::Bytes(_) => {
                let what = format!("the model's file \"{path}\" is missing, because a byte source is a single file");
                let error = Error::new(ErrorKind::Unsupported, what);
                Err(error.advise("Pass a URL or all files of the model instead."))
            }
        }
    }

    fn part_at_url(&self, url: &str, path: &str) -> Result<Self> {
        match &self.0 {
            Origin::Fetch(source) => Ok(WebSource(Origin::Fetch(source.part_at_url(url)))),
            #[cfg(feature = "web-workers")]
            Origin::Cached(source) => Ok(WebSource(Origin::Cached(source.with(source.source().part_at_url(url))?))),
            Origin::Blob(source) => Ok(WebSource(Origin::Blob(source.part_at_url(url, path)?))),
            Origin::Bytes(_) => self.part(path),
        }
    }

    fn stated_digest(&self) -> Option<Digest> {
        match &self.0 {
            Origin::Fetch(source) => source.stated_digest(),
            #[cfg(feature = "web-workers")]
            Origin::Cached(source) => source.source().stated_digest(),
            _ => None,
        }
    }
}

impl CacheHints for WebSource {
    #[cfg(feature = "web-workers")]
    fn expect_whole(&self, digest: &Digest) {
        if let Origin::Cached(source) = &self.0 {
            source.expect_whole(digest);
        }
    }

    #[cfg(feature = "web-workers")]
    fn expect(&self, range: Range<u64>, digest: &Digest) {
        if let Origin::Cached(source) = &self.0 {
            source.expect(range, digest);
        }
    }

    #[cfg(feature = "web-workers")]
    fn expect_copies(&self, files: &[Self], ranges: &[CopiedRange]) {
        let Origin::Cached(source) = &self.0 else { return };
        let cached = |file: &Self| match &file.0 {
            Origin::Cached(file) => Some(file.clone()),
            _ => None,
        };
        if let Some(files) = files.iter().map(cached).collect::<Option<Vec<_>>>() {
            source.expect_copies(&files, ranges);
        }
    }

    #[cfg(feature = "web-workers")]
    async fn holds(&self, digest: &Digest) -> bool {
        match &self.0 {
            Origin::Cached(source) => source.holds(digest).await,
            _ => false,
        }
    }

    #[cfg(feature = "web-workers")]
    async fn has_contents(&self, digests: &[Digest]) -> Vec<bool> {
        match &self.0 {
            Origin::Cached(source) => source.has_contents(digests).await,
            _ => vec![false; digests.len()],
        }
    }

    #[cfg(feature = "web-workers")]
    async fn read_content(
        &self,
        digest: &Digest,
        byte_length: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        match &self.0 {
            Origin::Cached(source) => source.read_content(digest, byte_length, take).await,
            _ => Ok(false),
        }
    }

    #[cfg(feature = "web-workers")]
    fn forget_content(&self, digest: &Digest) {
        if let Origin::Cached(source) = &self.0 {
            source.forget_content(digest);
        }
    }

    #[cfg(feature = "web-workers")]
    fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        if let Origin::Cached(source) = &self.0 {
            source.expect_buffers(ranges);
        }
    }

    #[cfg(feature = "web-workers")]
    fn confirm(&self, range: Range<u64>, digest: &Digest) {
        if let Origin::Cached(source) = &self.0 {
            source.confirm(range, digest);
        }
    }

    #[cfg(feature = "web-workers")]
    fn reject(&self) {
        if let Origin::Cached(source) = &self.0 {
            source.reject();
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
    /// The body of a byte source.
    Bytes(BytesBody),
}

impl Body for WebBody {
    type Buffer = JsBuffer;

    async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        match &mut self.0 {
            BodyOrigin::Stream(body) => body.read(into, at).await,
            #[cfg(feature = "web-workers")]
            BodyOrigin::Cached(body) => body.read(into, at).boxed_local().await,
            BodyOrigin::Bytes(body) => body.read(into, at).await,
        }
    }

    #[cfg(feature = "web-workers")]
    fn is_cached(&self) -> bool {
        matches!(&self.0, BodyOrigin::Cached(body) if body.is_cached())
    }
}
