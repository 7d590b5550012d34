//! Tests of the commands and their output.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::single_range_in_vec_init, reason = "a list of the one range that was requested")]

#[allow(dead_code, reason = "shared with the tests of the library")]
#[path = "../../../tests/native/bytes.rs"]
mod bytes;
mod command;
#[path = "../../../tests/corpus/mod.rs"]
mod corpus;
mod diff;
mod downloads;
mod downloads_confirmed;
mod downloads_names;
mod exit_codes;
mod fixtures;
#[path = "../../../tests/native/folder.rs"]
mod folder;
mod hub;
#[allow(dead_code, reason = "shared with the tests of the library")]
#[path = "../../../tests/traps/hub.rs"]
mod hub_server;
mod hugging_face;
mod inspect;
mod interrupted;
mod manual;
#[path = "../../../tests/traps/model.rs"]
mod model;
mod models;
mod one_tensor;
mod order;
mod outputs;
mod pipes;
mod remote;
#[allow(dead_code, reason = "shared with the tests of the library")]
#[path = "../../../tests/traps/server.rs"]
mod server;
mod signatures;
mod stores;
mod terminal;
mod updates;

use folder::{Folder, content_of};
use model::{FILE, range_of};
