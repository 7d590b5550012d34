//! What the writers promise: each format by itself, and all of them alike.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod aero;
#[path = "../corpus/mod.rs"]
mod corpus;
mod every_format;
mod model;
mod safetensors;
