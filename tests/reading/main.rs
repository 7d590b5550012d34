//! Every fixture, read in several ways: as a path and as a source, whole and in parts, also damaged.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod adapters;
mod chunks;
#[path = "../corpus/mod.rs"]
mod corpus;
mod fixtures;
mod fuzz;
mod metadata;
mod parity;
mod pool;
mod quantized;
mod safetensors_view;
