//! APR files made by hand, for what no fixture shows: each layout's quirks, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod apr1;
mod draft;
mod files;
mod manifest;
mod shipped;
