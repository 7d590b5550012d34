//! weightstream
mod fields;
pub mod codec;
pub mod dtype;
pub mod error;
pub mod format;
pub mod index;
pub mod plan;
#[cfg(not(target_arch = "wasm32"))]
pub mod serve;
pub mod window;
