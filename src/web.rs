//! The loader in WebAssembly, for applications that are written in Rust themselves: candle, burn, or an engine of their
//! own. The npm package is another interface to the same loader; nothing of it is in a module that uses only this.
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

use crate::error::Result;
use crate::loader::{self, Loader};
use crate::source::fetch::Client;
use crate::source::web::WebSource;
use std::rc::Rc;
use wasm_bindgen::JsValue;
use web_sys::Url;

/// How a model is requested and loaded.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Request headers, credentials, and the `fetch` that is called. Headers and credentials go to the origin of the
    /// opened URL unless `client.origin` names another one.
    pub client: Client,
    /// Retries, memory, concurrency, verification.
    pub loader: loader::Options,
}

/// Opens the model at an absolute URL: reads its head in one or two requests.
///
/// # Errors
/// `NETWORK` and `HTTP` where the file cannot be requested, `UNSUPPORTED` for an unknown format, and whatever the
/// format's parser finds wrong.
pub async fn open(url: &str, options: Options) -> Result<Rc<Loader<WebSource>>> {
    open_source(&JsValue::from_str(url), options).await
}

/// Opens a model that a JavaScript value stands for: an absolute URL as a string, a `Blob` or `File`, an array of
/// `File`s or a `FileList`, or an object with `byteLength` and `slice(start, end)`.
///
/// # Errors
/// `INVALID_ARGUMENT` for any other value; `NOT_FOUND` for missing files of the model; those of [`open`].
pub async fn open_source(source: &JsValue, options: Options) -> Result<Rc<Loader<WebSource>>> {
    let mut client = options.client;
    if let Some(url) = source.as_string().filter(|_| client.origin.is_empty()) {
        client.origin = Url::new(&url).map(|url| url.origin()).unwrap_or_default();
    }
    let source = WebSource::new(source, client)?.arranged().await?;
    Loader::open(source, options.loader).await.map(Rc::new)
}
