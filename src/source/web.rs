//! Sources that a web app can open: URLs, Blobs, Files and its own byte sources.

use super::blob::BlobSource;
use super::bytes::{self, ByteSource, BytesBody};
#[cfg(feature = "js")]
use super::cached::{CachedBody, CachedSource, KeyFunction, Report};
use super::fetch::{Client, FetchSource};
use super::files::SelectedFile;
use super::js_buffer::JsBuffer;
use super::stream::StreamBody;
use super::{Answer, Body, Source};
use crate::browser::timer;
use crate::browser::type_tag::tag;
#[cfg(feature = "js")]
use crate::cache::CacheOption;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "js")]
use crate::index::Digest;
#[cfg(feature = "js")]
use futures::FutureExt;
use js_sys::Reflect;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};

/// A source that a JavaScript value represents.
#[derive(Debug, Clone)]
pub enum WebSource {
    /// A URL.
    Fetch(FetchSource),
    /// A URL with a cache.
    #[cfg(feature = "js")]
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
    pub fn new(value: &JsValue, client: Client) -> Result<Self> {
        if let Some(url) = value.as_string() {
            return Ok(WebSource::Fetch(FetchSource::new(url, Rc::new(client))));
        }
        match tag(value).as_str() {
            "[object Blob]" | "[object File]" => {
                return Ok(WebSource::Blob(BlobSource::new(value.clone().unchecked_into())));
            }
            "[object Array]" | "[object FileList]" => {
                let files = SelectedFile::all_of(value)?;
                return BlobSource::from_files(files).map(WebSource::Blob).ok_or_else(unknown);
            }
            _ => {}
        }
        let field = |name: &str| Reflect::get(value, &name.into()).ok();
        let length = field("byteLength").and_then(|length| length.as_f64());
        if length.is_some_and(|length| length >= 0.0) && field("slice").is_some_and(|slice| slice.is_function()) {
            return Ok(WebSource::Bytes(value.clone().unchecked_into()));
        }
        Err(unknown())
    }

    /// Of several files, selects the one to open: the one that references the others.
    ///
    /// # Errors
    /// `NOT_FOUND` with the names of missing files of the model; `INVALID_ARGUMENT` with the names of files that do not
    /// belong to it.
    pub async fn into_root(self) -> Result<Self> {
        match self {
            WebSource::Blob(source) => source.into_root().await.map(WebSource::Blob),
            other => Ok(other),
        }
    }

    /// Adds a cache to the source if it is a URL and a cache is available. `report` receives the error otherwise.
    ///
    /// # Errors
    /// Those of [`KeyFunction::name`].
    #[cfg(feature = "js")]
    pub(crate) async fn with_cache(
        self,
        option: CacheOption,
        key_function: KeyFunction,
        report: Rc<Report>,
    ) -> Result<Self> {
        let WebSource::Fetch(source) = self else { return Ok(self) };
        // Errors of `cacheKey` are returned before the cache is started, and even if there is no cache.
        key_function.name(source.name())?;
        let (cache, error) = option.open().boxed_local().await;
        if let Some(error) = error {
            report.note(&error);
        }
        Ok(match cache {
            Some(cache) => WebSource::Cached(CachedSource::new(source, cache, key_function, report)?),
            None => WebSource::Fetch(source),
        })
    }
}

impl Source for WebSource {
    type Body = WebBody;

    fn name(&self) -> &str {
        match self {
            WebSource::Fetch(source) => source.name(),
            #[cfg(feature = "js")]
            WebSource::Cached(source) => source.source().name(),
            WebSource::Blob(source) => source.name(),
            WebSource::Bytes(_) => "the byte source",
        }
    }

    fn file_name(&self) -> Option<String> {
        match self {
            WebSource::Fetch(source) => source.file_name(),
            #[cfg(feature = "js")]
            WebSource::Cached(source) => source.source().file_name(),
            WebSource::Blob(source) => source.file_name(),
            WebSource::Bytes(_) => None,
        }
    }

    async fn read(&self, range: Range<u64>) -> Result<Answer<WebBody>> {
        match self {
            WebSource::Fetch(source) => Ok(source.read(range).await?.map(WebBody::Stream)),
            #[cfg(feature = "js")]
            WebSource::Cached(source) => {
                // Boxed to avoid a copy of its code at every call site.
                let answer = source.read(range).boxed_local().await?;
                Ok(answer.map(|body| WebBody::Cached(Box::new(body))))
            }
            WebSource::Blob(source) => Ok(source.read(range)?.map(WebBody::Stream)),
            WebSource::Bytes(source) => Ok(bytes::read(source, range)?.map(WebBody::Bytes)),
        }
    }

    fn part(&self, path: &str) -> Result<Self> {
        match self {
            WebSource::Fetch(source) => Ok(WebSource::Fetch(source.part(path)?)),
            #[cfg(feature = "js")]
            WebSource::Cached(source) => Ok(WebSource::Cached(source.with(source.source().part(path)?)?)),
            WebSource::Blob(source) => Ok(WebSource::Blob(source.part(path)?)),
            WebSource::Bytes(_) => {
                let what = format!("the model's file \"{path}\" is missing, because a byte source is a single file");
                let error = Error::new(ErrorKind::Unsupported, what);
                Err(error.advise("Pass a URL or all files of the model instead."))
            }
        }
    }

    fn elsewhere(&self, url: &str, path: &str) -> Result<Self> {
        match self {
            WebSource::Fetch(source) => Ok(WebSource::Fetch(source.elsewhere(url))),
            #[cfg(feature = "js")]
            WebSource::Cached(source) => Ok(WebSource::Cached(source.with(source.source().elsewhere(url))?)),
            WebSource::Blob(source) => source.elsewhere(url, path).map(WebSource::Blob),
            WebSource::Bytes(_) => self.part(path),
        }
    }

    #[cfg(feature = "js")]
    fn expect_whole(&self, digest: &Digest) {
        if let WebSource::Cached(source) = self {
            source.expect_whole(digest);
        }
    }

    #[cfg(feature = "js")]
    fn expect(&self, range: Range<u64>, digest: &Digest) {
        if let WebSource::Cached(source) = self {
            source.expect(range, digest);
        }
    }

    #[cfg(feature = "js")]
    fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        if let WebSource::Cached(source) = self {
            source.expect_buffers(ranges);
        }
    }

    #[cfg(feature = "js")]
    fn confirm(&self, range: Range<u64>, digest: &Digest) {
        if let WebSource::Cached(source) = self {
            source.confirm(range, digest);
        }
    }

    fn is_immutable(&self) -> bool {
        matches!(self, WebSource::Blob(_) | WebSource::Bytes(_))
    }

    #[cfg(feature = "js")]
    fn reject(&self) {
        if let WebSource::Cached(source) = self {
            source.reject();
        }
    }

    async fn pause(&self, delay_ms: u64) {
        timer::pause(delay_ms).await;
    }

    fn now_ms(&self) -> u64 {
        timer::now_ms() as u64
    }

    fn random(&self) -> f64 {
        js_sys::Math::random()
    }
}

fn unknown() -> Error {
    let what = "the source is not a URL, a Blob, a File, an array of Files or an object with byteLength and slice()";
    Error::new(ErrorKind::InvalidArgument, what)
}

/// The body of a [`WebSource`].
#[derive(Debug)]
pub enum WebBody {
    /// The body of a URL or Blob.
    Stream(StreamBody),
    /// The body of a URL with a cache.
    #[cfg(feature = "js")]
    Cached(Box<CachedBody>),
    /// The body of a byte source.
    Bytes(BytesBody),
}

impl Body for WebBody {
    type Buffer = JsBuffer;

    async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        match self {
            WebBody::Stream(body) => body.read(into, at).await,
            #[cfg(feature = "js")]
            WebBody::Cached(body) => body.read(into, at).boxed_local().await,
            WebBody::Bytes(body) => body.read(into, at).await,
        }
    }

    #[cfg(feature = "js")]
    fn is_cached(&self) -> bool {
        matches!(self, WebBody::Cached(body) if body.is_cached())
    }
}
