//! Tests of conversions that apply to all formats. The tests of a single format are in its folder.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod casts;
#[path = "../corpus/mod.rs"]
mod corpus;
mod damaged;
mod every_format;
mod folder;
mod graph;
mod model;
mod order;
mod readme;
mod round_trips;
