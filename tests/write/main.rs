//! What the writers promise: each format by itself, and all of them alike.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(feature = "aero")]
mod aero;
#[cfg(feature = "burnpack")]
mod burnpack;
mod casts;
#[path = "../corpus/mod.rs"]
mod corpus;
#[cfg(feature = "embd")]
mod embd;
mod every_format;
#[cfg(feature = "ztensor")]
mod in_memory;
mod model;
mod readme;
mod safetensors;
#[cfg(feature = "ztensor")]
mod ztensor;
