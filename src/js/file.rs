//! The class behind `RemoteFile` of `file/file.js`.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use super::cancel::{self, CloseSignal};
use super::progress::{FILE, ProgressReporter};
use super::promise::{Stop, deferred_promise};
use super::reading::Reading;
use super::{mirrors, options, value};
use crate::browser::deferred;
use crate::deferred::Code;
use crate::error::{Error, ErrorKind};
use crate::loader::{FileReader, RemoteFile, Stats};
use crate::progress::{BytesArrived, Progress};
use crate::source::Buffer;
use crate::source::cached::{KeyFunction, Report};
use crate::source::js_buffer::JsBuffer;
use crate::source::mirrors::Mirrors;
use crate::source::web::WebSource;
use js_sys::{Function, Promise, Uint8Array};
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// An open file of any format.
#[wasm_bindgen(js_name = WasmFile)]
pub struct JsFile {
    /// `None` once the file is closed.
    file: RefCell<Option<Rc<RemoteFile<WebSource>>>>,
    stats: Rc<Stats>,
    close_signal: CloseSignal,
    on_progress: Option<Function>,
    requests: Rc<Cell<u64>>,
    content_type: Rc<OnceCell<String>>,
    cache: Rc<Report>,
    /// What names the file in a cache, and its URL; `None` if it is not at a URL.
    named_by: Option<(KeyFunction, String)>,
    mirrors: Option<Rc<Mirrors>>,
}

/// A range of a file that is being read.
#[wasm_bindgen(js_name = WasmFileReader)]
pub struct JsFileReader {
    reading: Reading<FileReader<WebSource>>,
    length: Option<u64>,
    reporter: Rc<ProgressReporter>,
}

#[wasm_bindgen(js_class = WasmFile)]
impl JsFile {
    /// Opens a file. `source` and `options` are those of `openFile`, as `options/options.js` has checked and
    /// converted them.
    pub fn open(source: JsValue, options: JsValue) -> Promise {
        deferred_promise(Code::Extras, Stop::default(), move || opened(source, options))
    }

    /// The length in bytes; `undefined` if the server does not state it.
    #[wasm_bindgen(getter, js_name = byteLength)]
    pub fn byte_length(&self) -> Option<f64> {
        let file = self.file.borrow();
        file.as_ref().and_then(|file| file.byte_length()).map(|length| length as f64)
    }

    /// The `Content-Type` that the server sent; `undefined` if it sent none, or no request was made.
    #[wasm_bindgen(getter, js_name = contentType)]
    pub fn content_type(&self) -> Option<String> {
        self.content_type.get().cloned()
    }

    /// Resolves to the name under which the file is cached; to `undefined` if it is not at a URL.
    #[wasm_bindgen(js_name = cacheName)]
    pub fn cache_name(&self) -> Promise {
        let (named_by, close_signal) = (self.named_by.clone(), self.close_signal.clone());
        deferred_promise(Code::Cache, Stop { signal: None, close_signal }, move || async move {
            let name = named_by.map(|(key_function, url)| key_function.name(&url)).transpose();
            name.map(JsValue::from).map_err(super::failure)
        })
    }

    /// Whether what is downloaded is cached, as far as it is known.
    #[wasm_bindgen(getter, js_name = isCaching)]
    pub fn is_caching(&self) -> bool {
        self.cache.is_caching()
    }

    /// Starts to read the bytes `[start, end)`; without `end`, up to the end of the file. Requests nothing yet.
    pub fn read(
        &self,
        start: f64,
        end: Option<f64>,
        signal: Option<web_sys::AbortSignal>,
    ) -> Result<JsFileReader, JsValue> {
        let file = self.file.borrow().clone().ok_or_else(|| super::failure(closed_error()))?;
        let end = end.map(|end| end as u64).or(file.byte_length()).unwrap_or(u64::MAX);
        let reader = file.read(start as u64..end);
        let length = (end < u64::MAX).then(|| reader.end().saturating_sub(reader.position()));
        let reporter = ProgressReporter::new(FILE, self.on_progress.clone(), Rc::clone(&self.stats));
        reporter.expects(length.unwrap_or(0));
        let reading = Reading::new(reader, signal, self.close_signal.clone(), closed_error);
        Ok(JsFileReader { reading, length, reporter })
    }

    /// Counters over the lifetime of the file.
    #[wasm_bindgen(getter)]
    pub fn stats(&self) -> JsValue {
        value::object([
            ("requests", value::from_u64(self.requests.get())),
            ("bytesReceived", value::from_u64(self.stats.bytes_received())),
            ("bytesFromCache", value::from_u64(self.stats.bytes_from_cache())),
            ("cacheError", self.cache.error().map_or(JsValue::UNDEFINED, JsValue::from)),
            ("mirrors", self.mirrors.as_deref().map_or(JsValue::UNDEFINED, mirrors::report)),
        ])
    }

    /// Rejects pending and later calls, and frees the memory.
    pub fn close(&self) {
        self.close_signal.close();
        self.file.take();
    }
}

/// Opens a file, as [`JsFile::open`] describes it.
async fn opened(source: JsValue, options: JsValue) -> Result<JsValue, JsValue> {
    if options::field(&options, "mirrors").is_some() {
        deferred::load(Code::Mirrors).await.map_err(super::failure)?;
    }
    let settings = options::read_file(&source, &options)?;
    let code_of_digests = deferred::load_expected();
    let close_signal = CloseSignal::default();
    let (requests, content_type) = (Rc::clone(&settings.client.requests), Rc::clone(&settings.client.content_type));
    let cache = Rc::new(Report::default());
    let mut named_by = None;
    let opening = async {
        code_of_digests.await?;
        let mut source = WebSource::new(&source, settings.client)?.pinned().await?;
        if let Some(mirrors) = &settings.mirrors {
            source = source.with_mirrors(mirrors)?;
        }
        named_by = source.cache_url().map(|url| (settings.key_function.clone(), url));
        if let Some(choice) = settings.cache {
            source = source.with_cache(choice, settings.key_function, Rc::clone(&cache)).await?;
        }
        if settings.cross_origin.is_some() {
            deferred::load(Code::CachedFiles).await?;
            source = source.with_cross_origin(settings.cross_origin.as_ref());
        }
        let (retry, digest, signature) = (settings.retry, settings.digest, settings.signature.as_ref());
        match settings.first {
            Some(first) => RemoteFile::open_head(source, retry, digest, signature, first).await,
            None => RemoteFile::open_signed(source, retry, digest, signature).await,
        }
    };
    let file = Rc::new(cancel::run_until_stopped(settings.signal, &close_signal, opening).await?);
    let (stats, on_progress) = (Rc::clone(file.stats()), settings.on_progress);
    let (file, mirrors) = (RefCell::new(Some(file)), settings.mirrors);
    Ok(JsFile { file, stats, close_signal, on_progress, requests, content_type, cache, named_by, mirrors }.into())
}

#[wasm_bindgen(js_class = WasmFileReader)]
impl JsFileReader {
    /// Resolves to the next `length` bytes, or fewer at the end of the range, in a buffer that belongs to the caller.
    /// Without `length`, to all bytes of a range whose end is known.
    pub fn fill(&self, length: Option<f64>) -> Promise {
        let length = length.map(|length| length as u64).or(self.length).unwrap_or_default();
        let reporter = Rc::clone(&self.reporter);
        self.reading.run(async move |reader| {
            let length = length.min(reader.end().saturating_sub(reader.position()));
            let mut buffer = JsBuffer::allocate(length)?;
            let mut arrived = |range: Range<u64>| report(&reporter, range);
            let count = reporter.check(reader.fill(&mut buffer, 0..length, &mut arrived).await)?;
            if reader.position() >= reader.end() {
                reporter.finish(reader.verified());
            }
            Ok(buffer.bytes().subarray(0, count as u32).into())
        })
    }

    /// Resolves to the bytes that have arrived next, in a buffer that the next call overwrites; to `undefined` at the
    /// end of the range.
    pub fn chunk(&self) -> Promise {
        let reporter = Rc::clone(&self.reporter);
        self.reading.run(async move |reader| {
            let start = reader.position();
            let bytes = |buffer: &JsBuffer, length: u64| -> Uint8Array { buffer.bytes().subarray(0, length as u32) };
            let chunk = reporter.check(reader.chunk(bytes).await)?;
            match chunk {
                Some(bytes) => {
                    report(&reporter, start..reader.position());
                    Ok(bytes.into())
                }
                None => {
                    reporter.finish(reader.verified());
                    Ok(JsValue::UNDEFINED)
                }
            }
        })
    }

    /// Stops the request.
    pub fn cancel(&self) {
        self.reading.cancel();
        self.reporter.abort();
    }
}

impl std::fmt::Debug for JsFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsFile").field("file", &self.file).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for JsFileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JsFileReader")
    }
}

fn report(reporter: &ProgressReporter, range: Range<u64>) {
    reporter.arrived(BytesArrived { shard: 0, range, connection: 0, tensor: None });
}

fn closed_error() -> Error {
    Error::new(ErrorKind::Closed, "the file is closed")
}
