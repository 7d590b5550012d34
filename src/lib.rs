//! weightstream
pub mod codec;
pub mod dtype;
pub mod error;
mod fields;
pub mod format;
pub mod index;
pub mod loader;
pub mod native;
pub mod plan;
pub mod progress;
#[cfg(not(target_arch = "wasm32"))]
pub mod serve;
pub mod source;
pub mod window;
#[cfg(not(target_arch = "wasm32"))]
pub mod write;
