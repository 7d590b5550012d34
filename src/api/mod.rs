//! The interface for Rust users: a model that is opened from a path or a URL, asynchronous and blocking.

#[cfg(native)]
mod block_on;
#[cfg(native)]
pub(crate) mod blocking;
mod element;
#[cfg(writes)]
mod input;
#[cfg(native)]
mod local;
#[cfg(native)]
mod model;
mod options;
#[cfg(native)]
mod place;
mod request;
mod source_model;
#[cfg(native)]
mod streaming;
mod tensor;
#[cfg(native)]
mod thread;
#[cfg(web)]
mod web_model;

pub use element::Element;
#[cfg(native)]
pub use model::Model;
pub use options::OpenOptions;
pub use request::{LoadRequest, StreamRequest};
pub use source_model::SourceModel;
#[cfg(native)]
pub use streaming::StreamingLoader;
pub use tensor::{LoadedComponent, LoadedTensor};
#[cfg(native)]
pub use thread::TensorStream;
#[cfg(web)]
pub use web_model::{Model, TensorStream};
