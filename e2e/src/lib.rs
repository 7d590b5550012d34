//! End-to-end tests: the npm package in real browsers, the command line, real servers and the formats' own tools.

#![warn(clippy::too_many_lines)]
#![allow(missing_debug_implementations, clippy::missing_errors_doc, reason = "used only by programs of this workspace")]

pub mod accessibility_test;
pub mod bridge_test;
pub mod browser_traps;
pub mod cache_test;
pub mod cases;
pub mod chaos;
pub mod chromium;
pub mod console;
pub mod crash_test;
pub mod devtools;
pub mod docs_test;
pub mod embeddings;
pub mod engine;
pub mod examples_test;
pub mod failures;
pub mod file_test;
pub mod formats;
pub mod graph;
pub mod headless;
pub mod hub_test;
pub mod interop;
pub mod large_headers;
pub mod linear_layer;
pub mod listing;
pub mod llama_model;
pub mod minilm;
pub mod nginx;
pub mod nginx_test;
pub mod onnx_models;
pub mod package_test;
pub mod page;
pub mod page_test;
pub mod parity;
pub mod peers;
pub mod persona_test;
pub mod protobuf;
pub mod publish_check_test;
pub mod python;
pub mod race_test;
pub mod runtime_examples;
pub mod runtime_test;
pub mod rust_app_test;
pub mod screenshot;
pub mod signature_test;
pub mod similarity_test;
pub mod store_test;
pub mod targets;
pub mod timed;
pub mod trap_test;
pub mod visitor_test;
pub mod webdriver;
pub mod worker_test;
pub mod ztensor;
