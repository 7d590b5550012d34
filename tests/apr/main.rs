//! APR files made by hand, for what no fixture shows: each layout's quirks, and what is refused.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod apr1;
mod aprn;
mod draft;
mod files;
mod manifest;
mod shipped;
