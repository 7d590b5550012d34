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
    Loader::open(source, options.loader).await.map(Rc::new)
}
