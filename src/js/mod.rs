//! The face that JavaScript sees, below its own `weightstream.js`: promises in, plain objects out, no logic.

mod cache;
mod cancel;
mod crash;
mod failure;
mod list;
mod metadata;
mod options;
mod progress;
mod tensor;
mod value;

use crate::error::Error;
use crate::index::Tensor;
use crate::loader::{Loader, TensorRequest};
use crate::source::cached::Report;
use crate::source::web::WebSource;
use crate::workers::{WebCrypto, WorkerPool};
use cancel::Closing;
use failure::failure;
use futures::lock::Mutex;
use futures::stream::{LocalBoxStream, TryStreamExt};
use js_sys::{Array, Function, Promise};
use progress::Meter;
use std::cell::Cell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{future_to_promise, spawn_local};

/// An open model.
#[wasm_bindgen(js_name = Loader)]
pub struct JsLoader {
    loader: Rc<Loader<WebSource>>,
    closing: Closing,
    on_progress: Option<Function>,
    /// Where the model comes from a URL: the requests that were made.
    requests: Option<Rc<Cell<u64>>>,
    cache: Rc<Report>,
}

/// The tensors of one `tensors()` call, on their way.
#[wasm_bindgen]
pub struct TensorStream {
    tensors: Rc<Mutex<Option<TensorResults>>>,
    signal: Option<web_sys::AbortSignal>,
    closing: Closing,
}

type TensorResults = LocalBoxStream<'static, Result<JsValue, Error>>;

#[wasm_bindgen(js_class = Loader)]
impl JsLoader {
    /// `source` as in `StreamingLoader.open`, URLs as absolute strings.
    pub fn open(source: JsValue, options: JsValue) -> Promise {
        future_to_promise(async move {
            let settings = options::read(&source, &options)?;
            let closing = Closing::default();
            let requests = source.is_string().then(|| Rc::clone(&settings.client.requests));
            let cache = Rc::new(Report::default());
            let opening = async {
                let mut source = WebSource::new(&source, settings.client)?;
                if let Some(kept) = settings.cache {
                    source = source.kept_in(kept, settings.naming, Rc::clone(&cache)).await?;
                }
                let loader = Loader::open(source, settings.loader).await?;
                Ok(match settings.workers {
                    0 => match WebCrypto::of_this_page() {
                        Some(crypto) => loader.with_pool(Rc::new(crypto)),
                        None => loader,
                    },
                    count => loader.with_pool(Rc::new(WorkerPool::new(count))),
                })
            };
            let loader = Rc::new(cancel::unless(settings.signal, &closing, opening).await?);
            Ok(JsLoader { loader, closing, on_progress: settings.on_progress, requests, cache }.into())
        })
    }

    /// The metadata. Calls `add` for the items of long arrays.
    #[wasm_bindgen(js_name = loadMetadata)]
    pub fn load_metadata(&self, add: Function) -> Promise {
        let loader = Rc::clone(&self.loader);
        self.run(None, async move {
            let (manifest, first) = loader.heads().await?;
            metadata::from_heads(manifest, first.as_deref().map(|first| &first.index), &add)
        })
    }

    /// Calls `add` for each batch of tensors.
    #[wasm_bindgen(js_name = loadIndex)]
    pub fn load_index(&self, add: Function) -> Promise {
        let loader = Rc::clone(&self.loader);
        self.run(None, async move {
            list::hand_over(&loader.load_index().await?, &add)?;
            Ok(JsValue::UNDEFINED)
        })
    }

    /// One tensor.
    #[wasm_bindgen(js_name = loadTensor)]
    pub fn load_tensor(&self, name: String, options: JsValue) -> Promise {
        let loader = Rc::clone(&self.loader);
        let meter = self.meter("loadTensor");
        let signal = options::signal(&options);
        self.run(signal, async move {
            let (rows, into) = options::tensor_request(&options)?;
            let observer = Rc::clone(&meter);
            let loaded = loader.load_tensor(&name, TensorRequest { rows, into }, observer).await?;
            meter.finish(None);
            tensor::from_loaded(loaded)
        })
    }

    /// Starts loading; what fails is left to `load_tensor`.
    pub fn prefetch(&self, names: Vec<String>) {
        let meter = self.meter("prefetch");
        let work = self.loader.prefetch(names, Rc::clone(&meter) as Rc<_>);
        let closing = self.closing.clone();
        spawn_local(async move {
            let finished = async {
                work.await;
                Ok(())
            };
            if cancel::unless(None, &closing, finished).await.is_ok() {
                meter.finish(None);
            }
        });
    }

    /// Many tensors: all of them where `names` is undefined.
    pub fn tensors(&self, names: Option<Vec<String>>, signal: Option<web_sys::AbortSignal>) -> TensorStream {
        let meter = self.meter("tensors");
        let loader = Rc::clone(&self.loader);
        let opening = async move {
            let tensors = loader.tensors(names, Rc::clone(&meter) as Rc<_>).await?;
            let tensors = tensors.and_then(async |loaded| tensor::from_loaded(loaded));
            let end = futures::stream::once(async move {
                meter.finish(meter.verified_by());
                Ok(None)
            });
            use futures::stream::StreamExt;
            Ok(tensors.map_ok(Some).chain(end).try_filter_map(async |tensor| Ok(tensor)))
        };
        let tensors = Box::pin(futures::stream::once(opening).try_flatten());
        TensorStream { tensors: Rc::new(Mutex::new(Some(tensors))), signal, closing: self.closing.clone() }
    }

    /// Reads and checks everything.
    pub fn verify(&self, signal: Option<web_sys::AbortSignal>) -> Promise {
        let loader = Rc::clone(&self.loader);
        let meter = self.meter("verify");
        self.run(signal, async move {
            let verified = loader.verify(Rc::clone(&meter) as Rc<_>).await?;
            meter.finish(verified);
            Ok(verified.map_or(JsValue::NULL, JsValue::from))
        })
    }

    /// Counters over the life of the loader.
    #[wasm_bindgen(getter)]
    pub fn stats(&self) -> JsValue {
        let stats = self.loader.stats();
        value::object([
            ("requests", value::from_u64(self.requests.as_ref().map_or(stats.requests(), |requests| requests.get()))),
            ("bytesReceived", value::from_u64(stats.bytes_received())),
            ("bytesFromCache", value::from_u64(stats.bytes_from_cache())),
            ("cacheError", self.cache.error().map_or(JsValue::UNDEFINED, JsValue::from)),
            ("bytesDecoded", value::from_u64(stats.bytes_decoded())),
            ("wasmMemoryBytes", value::from_u64(wasm_memory_bytes())),
        ])
    }

    /// Rejects what is running and whatever is asked later.
    pub fn close(&self) {
        self.closing.close();
        self.loader.forget_prefetched();
    }

    fn meter(&self, kind: &'static str) -> Rc<Meter> {
        Meter::new(kind, self.on_progress.clone(), self.loader.shared_stats())
    }

    fn run(
        &self,
        signal: Option<web_sys::AbortSignal>,
        work: impl Future<Output = Result<JsValue, Error>> + 'static,
    ) -> Promise {
        let closing = self.closing.clone();
        future_to_promise(async move { cancel::unless(signal, &closing, work).await })
    }
}

#[wasm_bindgen]
impl TensorStream {
    /// The next tensor, or `undefined` at the end.
    pub fn next(&self) -> Promise {
        let tensors = Rc::clone(&self.tensors);
        let (signal, closing) = (self.signal.clone(), self.closing.clone());
        future_to_promise(async move {
            let mut held = tensors.lock().await;
            let Some(stream) = held.as_mut() else { return Ok(JsValue::UNDEFINED) };
            let next = cancel::unless(signal, &closing, stream.try_next()).await;
            if !matches!(next, Ok(Some(_))) {
                *held = None; // the end, or an error: stops what still runs
            }
            Ok(next?.unwrap_or(JsValue::UNDEFINED))
        })
    }

    /// Stops what is still running.
    pub fn cancel(&self) {
        if let Some(mut held) = self.tensors.try_lock() {
            *held = None;
        }
    }
}

impl std::fmt::Debug for JsLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.loader.fmt(f)
    }
}

impl std::fmt::Debug for TensorStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TensorStream")
    }
}

fn wasm_memory_bytes() -> u64 {
    core::arch::wasm32::memory_size(0) as u64 * (64 << 10)
}

/// A tensor's shape as numbers: exact up to 2^53.
fn shape_array(shape: &[u64]) -> Array {
    shape.iter().map(|&dim| value::from_u64(dim)).collect()
}

fn byte_length_of(tensor: &Tensor) -> u64 {
    tensor.byte_length().unwrap_or(0)
}
