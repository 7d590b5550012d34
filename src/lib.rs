//! weightstream
mod fields;
pub mod codec;
pub mod dtype;
pub mod error;
pub mod format;
pub mod index;
pub mod plan;
pub mod window;
