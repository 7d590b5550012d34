//! The interface to JavaScript, which `weightstream.js` calls. It returns promises and plain objects, and has no logic.

mod adapters;
mod allocator;
mod cache;
mod cached_files;
mod cached_models;
mod cancel;
mod crash;
mod failure;
mod file;
mod folder_path;
mod list;
mod metadata;
mod mirrors;
mod options;
mod progress;
mod promise;
mod reading;
mod sources;
mod tensor;
mod tensor_reader;
mod value;
#[cfg(feature = "safetensors")]
mod view;
mod warnings;
mod workers;

use crate::browser::deferred;
use crate::deferred::Code;
use crate::error::Error;
#[cfg(feature = "safetensors")]
use crate::loader::SafeTensorsView;
use crate::loader::{Loader, Stats};
use crate::source::Source;
use crate::source::cached::Report;
use crate::source::mirrors::Mirrors;
use crate::source::web::WebSource;
use crate::workers::{PoolHandle, pool};
use cancel::CloseSignal;
use failure::failure;
use futures::future::{self, Either, FutureExt, LocalBoxFuture};
use futures::lock::Mutex;
use futures::stream::{LocalBoxStream, StreamExt, TryStreamExt};
use js_sys::{Array, Function, Promise};
use progress::ProgressReporter;
use promise::future_to_promise;
use sources::Sources;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

/// An open model.
#[wasm_bindgen(js_name = Loader)]
pub struct JsLoader {
    /// `None` once it is closed, so its memory is freed immediately and not when JavaScript collects this object.
    loader: RefCell<Option<Rc<Loader<WebSource>>>>,
    /// The model as one SafeTensors file, once it was opened as such.
    #[cfg(feature = "safetensors")]
    view: Rc<RefCell<Option<Rc<SafeTensorsView<WebSource>>>>>,
    stats: Rc<Stats>,
    close_signal: CloseSignal,
    on_progress: Option<Function>,
    /// The number of requests, if the model is loaded from a URL.
    requests: Option<Rc<Cell<u64>>>,
    cache: Rc<Report>,
    workers: Option<Rc<PoolHandle>>,
    mirrors: Option<Rc<Mirrors>>,
}

/// The stream of tensors that one `tensors()` call returns.
#[wasm_bindgen]
pub struct TensorStream {
    /// `None` after the last tensor, an error or a cancellation.
    tensors: Rc<Mutex<Option<TensorResults>>>,
    signal: Option<web_sys::AbortSignal>,
    close_signal: CloseSignal,
    /// Closed when JavaScript cancels or drops the stream, or when the stream has ended.
    cancelled: CloseSignal,
}

type TensorResults = LocalBoxStream<'static, Result<JsValue, Error>>;

#[wasm_bindgen(js_class = Loader)]
impl JsLoader {
    /// Opens a model. `source` and `options` are those of `StreamingLoader.open`, as `options/options.js` has
    /// checked and converted them.
    pub fn open(source: JsValue, options: JsValue) -> Promise {
        future_to_promise(async move {
            let close_signal = CloseSignal::default();
            for code in options::code_of(&options) {
                let loading = deferred::load(code);
                cancel::run_until_stopped(options::signal(&options), &close_signal, loading).await?;
            }
            let settings = options::read(&source, &options)?;
            let code_of_digests = deferred::load_expected();
            let requests = source.is_string().then(|| Rc::clone(&settings.client.requests));
            let cache = Rc::new(Report::default());
            let workers = (settings.workers > 0).then(|| Rc::new(PoolHandle::new(settings.workers)));
            let sources = Rc::new(Sources {
                client: settings.client,
                cache: settings.cache,
                key_function: settings.key_function,
                release_lock: Cell::new(settings.release_lock),
                mirrors: Cell::new(settings.mirrors.clone()),
                report: Rc::clone(&cache),
                cross_origin: settings.cross_origin,
            });
            let (own, pool) = (Rc::clone(&sources), pool(workers.as_ref()));
            let opening = async move {
                code_of_digests.await?;
                let loader = Loader::open(own.open(&source).await?, settings.loader).await?;
                Ok(match pool {
                    Some(pool) => loader.with_pool(pool),
                    None => loader,
                })
            };
            let mut opening = opening.boxed_local();
            if let Some(adapters) = options::adapters(&options) {
                opening = adapters::add(opening, adapters, sources);
            }
            let loader = Rc::new(cancel::run_until_stopped(settings.signal, &close_signal, opening).await?);
            let (stats, on_progress) = (loader.shared_stats(), settings.on_progress);
            let loader = RefCell::new(Some(loader));
            Ok(JsLoader {
                loader,
                #[cfg(feature = "safetensors")]
                view: Rc::default(),
                stats,
                close_signal,
                on_progress,
                requests,
                cache,
                workers,
                mirrors: settings.mirrors,
            }
            .into())
        })
    }

    /// Resolves to the metadata. Calls `add` for the items of long arrays.
    #[wasm_bindgen(js_name = loadMetadata)]
    pub fn load_metadata(&self, add: Function, signal: Option<web_sys::AbortSignal>) -> Promise {
        self.run(signal, async move |loader| {
            let (manifest, first) = loader.heads().await?;
            metadata::from_headers(manifest, first.as_deref().map(|first| &first.index), &add)
        })
    }

    /// Calls `add` for each batch of tensors. Resolves to the URLs or names of the files, by their index.
    #[wasm_bindgen(js_name = loadIndex)]
    pub fn load_index(&self, add: Function, signal: Option<web_sys::AbortSignal>) -> Promise {
        self.run(signal, async move |loader| {
            list::pass_tensors(&loader.load_index().await?, &add)?;
            Ok(loader.sources().map(|source| JsValue::from(source.name())).collect::<Array>().into())
        })
    }

    /// The names under which the files that have tensors are cached.
    #[wasm_bindgen(js_name = namesInCache)]
    pub fn names_in_cache(&self) -> Vec<String> {
        let loader = self.loader.borrow();
        let sources = loader.iter().flat_map(|loader| loader.sources());
        sources.filter_map(WebSource::name_in_cache).map(str::to_owned).collect()
    }

    /// Whether what is downloaded is cached, as far as it is known.
    #[wasm_bindgen(getter, js_name = isCaching)]
    pub fn is_caching(&self) -> bool {
        self.cache.is_caching()
    }

    /// Loads one tensor.
    #[wasm_bindgen(js_name = loadTensor)]
    pub fn load_tensor(&self, name: String, options: JsValue) -> Promise {
        let reporter = self.reporter("loadTensor");
        self.run(options::signal(&options), async move |loader| {
            let request = options::tensor_request(&options);
            let load = async {
                let dtype = request.dtype.clone();
                if let Some(to) = &dtype {
                    deferred::load(Code::Calls).await?;
                    loader.check_float(&name, to, request.is_dense).await?;
                }
                let loaded = loader.load_tensor(&name, request, Rc::clone(&reporter) as Rc<_>).await?;
                tensor::from_loaded(loaded, dtype.as_ref())
            };
            let tensor = reporter.check(load.await)?;
            reporter.finish(None);
            Ok(tensor)
        })
    }

    /// Starts to load tensors for later calls of `load_tensor`, which report the errors.
    ///
    /// If `signal` aborts, tensors that have not arrived are not loaded, until `load_tensor` asks for them. Resolves at
    /// the end.
    pub fn prefetch(&self, names: Vec<String>, signal: Option<web_sys::AbortSignal>) -> Promise {
        let Some(loader) = self.loader.borrow().clone() else { return Promise::resolve(&JsValue::UNDEFINED) };
        let reporter = self.reporter("prefetch");
        let work = loader.prefetch(names, Rc::clone(&reporter) as Rc<_>);
        let work = async move {
            match work.await {
                true => reporter.finish(None),
                false => reporter.fail(),
            }
            Ok(JsValue::UNDEFINED)
        };
        promise(signal, self.close_signal.clone(), work.boxed_local())
    }

    /// Streams the tensors that `options` name, or all tensors.
    pub fn tensors(&self, options: JsValue) -> TensorStream {
        let (request, signal) = (options::tensors_request(&options), options::signal(&options));
        let reporter = self.reporter("tensors");
        let loader = self.loader.borrow().clone();
        let failing = Rc::clone(&reporter);
        let opening = async move {
            let loader = loader.ok_or_else(cancel::closed_error)?;
            let wanted = request.dtype.clone();
            load_conversions(wanted.is_some() || request.is_dense).await?;
            let tensors = loader.tensors_with(request, Rc::clone(&reporter) as Rc<_>).await?;
            let tensors = tensors.and_then(move |loaded| future::ready(tensor::from_loaded(loaded, wanted.as_ref())));
            let end = futures::stream::once(async move {
                reporter.finish(reporter.verified_by());
                Ok(None)
            });
            Ok(tensors.map_ok(Some).chain(end).try_filter_map(async |tensor| Ok(tensor)))
        };
        let tensors = futures::stream::once(opening).try_flatten();
        let tensors = Box::pin(tensors.map(move |tensor| failing.check(tensor)));
        TensorStream::new(tensors, signal, self.close_signal.clone())
    }

    /// Reads and verifies the whole model.
    pub fn verify(&self, signal: Option<web_sys::AbortSignal>) -> Promise {
        let reporter = self.reporter("verify");
        self.run(signal, async move |loader| {
            let verified = reporter.check(loader.verify(Rc::clone(&reporter) as Rc<_>).await)?;
            reporter.finish(verified);
            Ok(verified.map_or(JsValue::NULL, JsValue::from))
        })
    }

    /// Counters over the lifetime of the loader.
    #[wasm_bindgen(getter)]
    pub fn stats(&self) -> JsValue {
        let stats = &self.stats;
        let workers_error = self.workers.as_ref().and_then(|workers| workers.error());
        value::object([
            ("requests", value::from_u64(self.requests.as_ref().map_or(stats.requests(), |requests| requests.get()))),
            ("bytesReceived", value::from_u64(stats.bytes_received())),
            ("bytesFromCache", value::from_u64(stats.bytes_from_cache())),
            ("cacheError", self.cache.error().map_or(JsValue::UNDEFINED, JsValue::from)),
            ("workersError", workers_error.map_or(JsValue::UNDEFINED, JsValue::from)),
            ("bytesDecoded", value::from_u64(stats.bytes_decoded())),
            ("wasmMemoryBytes", value::from_u64(wasm_memory_bytes())),
            ("mirrors", self.mirrors.as_deref().map_or(JsValue::UNDEFINED, mirrors::report)),
        ])
    }

    /// Rejects pending and later calls, and frees the memory.
    pub fn close(&self) {
        self.close_signal.close();
        #[cfg(feature = "safetensors")]
        self.view.take();
        if let Some(loader) = self.loader.take() {
            loader.forget_prefetched();
        }
    }

    fn reporter(&self, kind: &'static str) -> Rc<ProgressReporter> {
        ProgressReporter::new(kind, self.on_progress.clone(), Rc::clone(&self.stats))
    }

    fn run(
        &self,
        signal: Option<web_sys::AbortSignal>,
        work: impl AsyncFnOnce(Rc<Loader<WebSource>>) -> Result<JsValue, Error> + 'static,
    ) -> Promise {
        let loader = self.loader.borrow().clone();
        let work = async move { work(loader.ok_or_else(cancel::closed_error)?).await };
        promise(signal, self.close_signal.clone(), work.boxed_local())
    }
}

/// The promise of work that is stopped by its signal and by the end of the loader. The work is boxed, because the code
/// that stops it would otherwise be generated for each call.
#[inline(never)]
fn promise(
    signal: Option<web_sys::AbortSignal>,
    close_signal: CloseSignal,
    work: LocalBoxFuture<'static, Result<JsValue, Error>>,
) -> Promise {
    future_to_promise(async move { cancel::run_until_stopped(signal, &close_signal, work).await })
}

#[wasm_bindgen]
impl TensorStream {
    /// Resolves to the next tensor, or to `undefined` at the end.
    pub fn next(&self) -> Promise {
        let (tensors, cancelled) = (Rc::clone(&self.tensors), self.cancelled.clone());
        let next_or_cancelled = async move {
            let next = async {
                let mut guard = tensors.lock().await;
                let Some(stream) = guard.as_mut() else { return Ok(None) };
                let next = stream.try_next().await;
                if !matches!(next, Ok(Some(_))) {
                    *guard = None; // the end, or an error: stops the remaining requests
                    cancelled.close();
                }
                next
            };
            match future::select(pin!(cancelled.closed()), pin!(next)).await {
                Either::Left(_) => Ok(JsValue::UNDEFINED),
                Either::Right((next, _)) => Ok(next?.unwrap_or(JsValue::UNDEFINED)),
            }
        };
        promise(self.signal.clone(), self.close_signal.clone(), next_or_cancelled.boxed_local())
    }

    /// Stops the requests of the stream.
    pub fn cancel(&self) {
        self.cancelled.close();
    }

    fn new(tensors: TensorResults, signal: Option<web_sys::AbortSignal>, close_signal: CloseSignal) -> Self {
        let tensors = Rc::new(Mutex::new(Some(tensors)));
        let cancelled = CloseSignal::default();
        let stream = TensorStream { tensors, signal, close_signal, cancelled };
        stream.drop_when_stopped();
        stream
    }

    /// Drops the stream when it is stopped, even if no call of `next` is pending.
    fn drop_when_stopped(&self) {
        let tensors = Rc::downgrade(&self.tensors);
        let (signal, close_signal) = (self.signal.clone(), self.close_signal.clone());
        let cancelled = self.cancelled.clone();
        spawn_local(async move {
            future::select(pin!(cancel::stopped(signal.as_ref(), &close_signal)), pin!(cancelled.closed())).await;
            if let Some(tensors) = tensors.upgrade() {
                *tensors.lock().await = None;
            }
        });
    }
}

impl Drop for TensorStream {
    fn drop(&mut self) {
        self.cancelled.close();
    }
}

impl std::fmt::Debug for JsLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsLoader").field("loader", &self.loader).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TensorStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TensorStream")
    }
}

/// Loads the code of conversions for a call that converts.
async fn load_conversions(converts: bool) -> Result<(), Error> {
    if converts { deferred::load(Code::Calls).await } else { Ok(()) }
}

fn wasm_memory_bytes() -> u64 {
    core::arch::wasm32::memory_size(0) as u64 * (64 << 10)
}

/// The shape of a tensor, as an array of numbers, or of bigints above 2^53.
fn shape_array(shape: &[u64]) -> Array {
    shape.iter().map(|&dim| value::from_u64(dim)).collect()
}
