//! The loader in WebAssembly, for Rust applications that use candle, burn or another engine. The npm package is a
//! separate interface to the same loader; a wasm module that uses only this module does not contain it.
//!
//! ```no_run
//! # #[cfg(target_arch = "wasm32")]
//! # async fn example() -> weightstream::Result<()> {
//! use std::rc::Rc;
//! use weightstream::loader::TensorRequest;
//! use weightstream::web;
//!
//! let loader = web::open("https://example.org/model.safetensors", web::Options::default()).await?;
//! for tensor in loader.load_index().await? {
//!     let loaded = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await?;
//!     for component in &loaded.components {
//!         let buffer = component.buffer.bytes(); // a Uint8Array over memory that JavaScript owns
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Cache and workers
//!
//! With the feature `web-workers`, [`Options`] also has `cache`, which keeps downloaded files for the next visit, and
//! `workers`, which decode and verify tensors beside the thread of the page. They run your own module in workers, with
//! a script that `wasm-bindgen --target web` (and so wasm-pack and Trunk) writes to the folder `snippets` beside your
//! module. A `start` function, or `main`, then also runs in the workers, and must return there at once:
//!
//! ```no_run
//! # #[cfg(all(target_arch = "wasm32", feature = "web-workers"))]
//! # mod app {
//! # use wasm_bindgen::prelude::wasm_bindgen;
//! #[wasm_bindgen(start)]
//! fn start() {
//!     if weightstream::web::is_worker() {
//!         return;
//!     }
//!     // shows the app
//! }
//!
//! async fn load() -> weightstream::Result<()> {
//!     use weightstream::web;
//!
//!     let mut options = web::Options::default();
//!     options.cache = Some(web::Cache::Auto);
//!     options.workers = web::default_workers();
//!     let report = options.report.clone();
//!     let loader = web::open("https://example.org/model.apr", options).await?;
//!     if let Some(reason) = report.cache_error() {
//!         // The model is loaded from the network.
//!     }
//!     Ok(())
//! }
//! # }
//! ```
//!
//! With a bundler, or with `wasm-bindgen --target bundler`, set the worker with `set_worker`.

#[cfg(feature = "web-workers")]
mod cache;
#[cfg(feature = "web-workers")]
mod report;
#[cfg(feature = "web-workers")]
mod workers;

#[cfg(feature = "web-workers")]
pub use cache::{Cache, CachedFile, cached_files, clear_cache, delete_cached};
#[cfg(feature = "web-workers")]
pub use report::Report;
#[cfg(feature = "web-workers")]
pub use workers::{default_workers, is_worker, set_worker};

use crate::error::Result;
use crate::loader::{self, Loader};
use crate::source::fetch::Client;
use crate::source::web::WebSource;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// Options for opening a model.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Request headers, credentials mode, the `fetch` function, and the hub of addresses. Headers and credentials are
    /// sent only to `client.origin`, which defaults to the origin of the opened URL or of the hub.
    pub client: Client,
    /// Retries, memory, concurrency and verification.
    pub loader: loader::Options,
    /// Where to keep the files of models that are opened by URL; `None`, the default, for nowhere.
    #[cfg(feature = "web-workers")]
    pub cache: Option<Cache>,
    /// The maximum number of workers that decode and verify tensors; 0, the default, for none. See
    /// [`default_workers`].
    #[cfg(feature = "web-workers")]
    pub workers: usize,
    /// Why the cache or the workers are not used. Keep a clone to read it.
    #[cfg(feature = "web-workers")]
    pub report: Rc<Report>,
}

/// Opens the model at an absolute URL or an address on a hub such as `hf:owner/name/path`, and reads its header with
/// one or two requests.
///
/// # Errors
/// `NETWORK` and `HTTP` if the request fails, `UNSUPPORTED` for an unknown format, and the errors of the format's
/// parser.
pub async fn open(url: &str, options: Options) -> Result<Rc<Loader<WebSource>>> {
    open_source(&JsValue::from_str(url), options).await
}

/// Opens the model that a JavaScript value represents: an absolute URL as a string, a `Blob` or `File`, an array of
/// `File`s or a `FileList`, or an object with `byteLength` and `slice(start, end)`.
///
/// # Errors
/// `INVALID_ARGUMENT` for any other value; `NOT_FOUND` for missing files of the model; those of [`open`].
pub async fn open_source(source: &JsValue, options: Options) -> Result<Rc<Loader<WebSource>>> {
    let client = options.client.for_url(source.as_string().as_deref());
    let source = WebSource::new(source, client)?.into_root().await?;
    #[cfg(feature = "web-workers")]
    let source = cache::add_to(source, options.cache, &options.report).await?;
    let loader = Loader::open(source, options.loader).await?;
    #[cfg(feature = "web-workers")]
    let loader = workers::add_to(loader, options.workers, &options.report);
    Ok(Rc::new(loader))
}
