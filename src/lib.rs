//! weightstream brings machine-learning model weights from a URL into a web app: it reads a file's header
//! and index with a few Range requests, then streams each tensor's bytes (decompressed, verified) straight into
//! an `ArrayBuffer` that JavaScript owns. The same core reads the same files natively through mmap.
//!
//! ```text
//!          Window (the bytes known so far)      Index                 runs of bytes
//!  Source ────────▶ format ── "need 64..1024" ──▶ Tensor, Component ──▶ plan ──▶ Source
//!    ▲                ▲ fetched, parsed again                                     │ one long stream,
//!    │                └──────────────┘                                            ▼ many tensors
//!  fetch · blob · memory                                sink ◀── codec: lz4, digests
//!                                              ArrayBuffer · Vec<u8> · &[u8]
//! ```
//!
//! Floors, each standing only on those below it:
//!
//! | floor | rooms | what lives there |
//! | --- | --- | --- |
//! | faces | `js`, `main.rs` with `cli` | what a web app and what a shell sees; no logic of their own |
//! | | `workers` | a page's workers, which decode and digest for the loader |
//! | engine | [`loader`] | opens a model over any source, lists it, streams its tensors |
//! | | [`native`], `write` | reads models through mmap; writes them in another format |
//! | core | [`mod@format`], [`plan`] | one file a format; which bytes to ask for, in how few runs |
//! | parts | [`window`], [`index`], [`split`], [`codec`], [`source`], [`cache`] | partial bytes; the vocabulary that formats share; decoders and digests; where bytes come from; what is kept of them |
//! | ground | [`dtype`], [`error`], [`progress`], `regular_file` | |
//!
//! Nothing in the core does I/O or knows a clock: parsers read a [`window::Window`] as if all of the file were
//! in memory, and stop where bytes are missing until the engine has fetched them.

#![deny(missing_docs, unsafe_code)]
#![deny(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]

#[cfg(target_arch = "wasm32")]
mod browser;
#[cfg(any(all(feature = "js", target_arch = "wasm32"), all(test, not(target_arch = "wasm32"))))]
mod cache;
mod codec;
#[cfg(any(feature = "embd", feature = "gguf"))]
mod cursor;
pub mod dtype;
pub mod error;
mod fields;
mod format;
mod identity;
pub mod index;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod js;
pub mod loader;
mod long_array;
mod names;
pub mod native;
mod plan;
pub mod progress;
#[cfg(not(target_arch = "wasm32"))]
mod regular_file;
pub mod retry;
mod setters;
pub mod source;
#[cfg(target_arch = "wasm32")]
pub mod web;
mod window;
#[cfg(all(feature = "js", target_arch = "wasm32"))]
mod workers;
#[cfg(all(feature = "write", not(target_arch = "wasm32")))]
pub mod write;

pub use error::{Error, ErrorKind, Result};

/// Parsers, decoders and the interface of worker threads, for this repository's own tests, fuzz targets and benchmarks,
/// which are other crates. It is no part of the public API: anything in it may change in any version.
#[doc(hidden)]
pub mod internals {
    pub mod codec {
        pub use crate::codec::*;
    }
    pub mod format {
        pub use crate::format::*;
    }
    pub mod pool {
        pub use crate::loader::{Job, Outcome, Pool, Received, Task, TaskError, Work};
    }
    pub mod window {
        pub use crate::window::*;
    }
}
