//! What a web app can open: URLs, Blobs and Files, and bytes of its own.

use super::blob::BlobSource;
use super::bytes::{self, ByteSource, BytesBody};
use super::cached::{CachedBody, CachedSource, Naming, Report};
use super::fetch::{Client, FetchSource};
use super::js_buffer::JsBuffer;
use super::stream::StreamBody;
use super::{Answer, Body, Source, timer};
use crate::cache::Choice;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Digest;
use futures::FutureExt;
use js_sys::{Array, Reflect};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Blob, File};

pub(crate) use super::bytes::view;

/// One of the sources that JavaScript can name.
#[derive(Debug, Clone)]
pub enum WebSource {
    /// A URL.
    Fetch(FetchSource),
    /// A URL, with the cache before it.
    Cached(CachedSource),
    /// A Blob or File.
    Blob(BlobSource),
    /// Bytes that the caller provides.
    Bytes(ByteSource),
}

impl WebSource {
    /// The source that a JavaScript value stands for: an absolute URL as a string, a Blob, an array of Files, or an object
    /// with `byteLength` and `slice`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for anything else.
    pub fn new(value: &JsValue, client: Client) -> Result<Self> {
        if let Some(url) = value.as_string() {
            return Ok(WebSource::Fetch(FetchSource::new(url, Rc::new(client))));
        }
        if let Some(blob) = value.dyn_ref::<Blob>() {
            return Ok(WebSource::Blob(BlobSource::new(blob.clone(), Rc::default())));
        }
        if let Some(files) = value.dyn_ref::<Array>() {
            let files: Option<Vec<File>> = files.iter().map(|file| file.dyn_into().ok()).collect();
            if let Some(files) = files
                && let Some(first) = files.first().cloned()
            {
                return Ok(WebSource::Blob(BlobSource::new(first.unchecked_into(), Rc::new(files))));
            }
        }
        let field = |name: &str| Reflect::get(value, &name.into()).ok();
        let length = field("byteLength").and_then(|length| length.as_f64());
        if length.is_some_and(|length| length >= 0.0) && field("slice").is_some_and(|slice| slice.is_function()) {
            return Ok(WebSource::Bytes(value.clone().unchecked_into()));
        }
        let what = "the source is no URL, Blob, File, non-empty array of Files, or object with byteLength and slice()";
        Err(Error::new(ErrorKind::InvalidArgument, what))
    }

    /// The same source with the cache before it, where that makes sense, for URLs, and where there can be one. `report` says
    /// why there is none.
    ///
    /// # Errors
    /// Those of [`Naming::name`].
    pub(crate) async fn kept_in(self, choice: Choice, naming: Naming, report: Rc<Report>) -> Result<Self> {
        let WebSource::Fetch(source) = self else { return Ok(self) };
        naming.name(source.name())?; // before anything is started, and wherever there is a cache or not
        let (cache, fault) = choice.open().boxed_local().await;
        if let Some(fault) = fault {
            report.note(&fault);
        }
        Ok(match cache {
            Some(cache) => WebSource::Cached(CachedSource::new(source, cache, naming, report)?),
            None => WebSource::Fetch(source),
        })
    }
}

impl Source for WebSource {
    type Body = WebBody;

    fn name(&self) -> &str {
        match self {
            WebSource::Fetch(source) => source.name(),
            WebSource::Cached(source) => source.source().name(),
            WebSource::Blob(source) => source.name(),
            WebSource::Bytes(_) => "the byte source",
        }
    }

    fn file_name(&self) -> Option<String> {
        match self {
            WebSource::Fetch(source) => source.file_name(),
            WebSource::Cached(source) => source.source().file_name(),
            WebSource::Blob(source) => source.file_name(),
            WebSource::Bytes(_) => None,
        }
    }

    async fn read(&self, range: Range<u64>) -> Result<Answer<WebBody>> {
        match self {
            WebSource::Fetch(source) => Ok(source.read(range).await?.map(WebBody::Stream)),
            WebSource::Cached(source) => {
                // Boxed, or the compiler copies all of it to wherever a source is read.
                let answer = source.read(range).boxed_local().await?;
                Ok(answer.map(|body| WebBody::Cached(Box::new(body))))
            }
            WebSource::Blob(source) => Ok(source.read(range)?.map(WebBody::Stream)),
            WebSource::Bytes(source) => Ok(bytes::read(source, range).map(WebBody::Bytes)),
        }
    }

    fn part(&self, path: &str) -> Result<Self> {
        match self {
            WebSource::Fetch(source) => Ok(WebSource::Fetch(source.part(path)?)),
            WebSource::Cached(source) => Ok(WebSource::Cached(source.with(source.source().part(path)?)?)),
            WebSource::Blob(source) => Ok(WebSource::Blob(source.part(path)?)),
            WebSource::Bytes(_) => {
                let what = format!("a byte source has no files beside it, so \"{path}\" cannot be found");
                let error = Error::new(ErrorKind::Unsupported, what);
                Err(error.advise("Give a URL or all files of the model instead."))
            }
        }
    }

    fn elsewhere(&self, url: &str, path: &str) -> Result<Self> {
        match self {
            WebSource::Fetch(source) => Ok(WebSource::Fetch(source.elsewhere(url))),
            WebSource::Cached(source) => Ok(WebSource::Cached(source.with(source.source().elsewhere(url))?)),
            WebSource::Blob(_) | WebSource::Bytes(_) => self.part(path),
        }
    }

    fn expect_whole(&self, digest: &Digest) {
        if let WebSource::Cached(source) = self {
            source.expect_whole(digest);
        }
    }

    fn expect(&self, range: Range<u64>, digest: &Digest) {
        if let WebSource::Cached(source) = self {
            source.expect(range, digest);
        }
    }

    fn expect_buffers(&self, ranges: Vec<Range<u64>>) {
        if let WebSource::Cached(source) = self {
            source.expect_buffers(ranges);
        }
    }

    fn confirm(&self, range: Range<u64>, digest: &Digest) {
        if let WebSource::Cached(source) = self {
            source.confirm(range, digest);
        }
    }

    fn is_immutable(&self) -> bool {
        matches!(self, WebSource::Blob(_) | WebSource::Bytes(_))
    }

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

/// Bytes from one of the sources.
#[derive(Debug)]
pub enum WebBody {
    /// From a stream.
    Stream(StreamBody),
    /// From the cache, or past it.
    Cached(Box<CachedBody>),
    /// From the caller's code.
    Bytes(BytesBody),
}

impl Body for WebBody {
    type Buffer = JsBuffer;

    async fn read(&mut self, into: &mut JsBuffer, at: Range<u64>) -> Result<u64> {
        match self {
            WebBody::Stream(body) => body.read(into, at).await,
            WebBody::Cached(body) => body.read(into, at).boxed_local().await,
            WebBody::Bytes(body) => body.read(into, at).await,
        }
    }

    fn is_cached(&self) -> bool {
        matches!(self, WebBody::Cached(body) if body.is_cached())
    }
}
