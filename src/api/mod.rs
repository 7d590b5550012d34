//! The interface for Rust users: a model that is opened from a path or a URL, asynchronous and blocking.

#[cfg(not(target_arch = "wasm32"))]
mod block_on;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod blocking;
mod element;
#[cfg(all(feature = "write", not(target_arch = "wasm32")))]
mod input;
#[cfg(not(target_arch = "wasm32"))]
mod local;
#[cfg(not(target_arch = "wasm32"))]
mod model;
mod options;
#[cfg(not(target_arch = "wasm32"))]
mod place;
mod request;
mod source_model;
#[cfg(not(target_arch = "wasm32"))]
mod streaming;
mod tensor;
#[cfg(not(target_arch = "wasm32"))]
mod thread;
#[cfg(target_arch = "wasm32")]
mod web_model;

pub use element::Element;
#[cfg(not(target_arch = "wasm32"))]
pub use model::Model;
pub use options::OpenOptions;
pub use request::{LoadRequest, StreamRequest};
pub use source_model::SourceModel;
#[cfg(not(target_arch = "wasm32"))]
pub use streaming::StreamingLoader;
pub use tensor::{LoadedComponent, LoadedTensor};
#[cfg(not(target_arch = "wasm32"))]
pub use thread::TensorStream;
#[cfg(target_arch = "wasm32")]
pub use web_model::{Model, TensorStream};
