//! Tests of the native reader and of conversions.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod bad_input;
mod bytes;
mod causes;
mod converted;
mod dense;
mod folder;
mod foreign_files;
mod loader;
mod model;
mod model_faults;
mod overlapping;
mod reading;
mod reports;
mod round_trips;
mod rules;
mod sharded;
mod tied;

use folder::{Content, Folder, content, content_of};
