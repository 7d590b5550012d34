//! Tests of publishing to folders. Stores have a test of their own: `cargo run -p e2e -- stores`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod differences;
mod downloads;
mod entry;
mod interrupted;
#[path = "../../../tests/write/model.rs"]
#[allow(dead_code, reason = "shared with the tests of conversions")]
mod model;
mod outputs;
mod parts;
mod places;
mod published;
mod refusals;
mod revisions;
mod server;
