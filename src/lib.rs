//! Streams machine-learning model weights: reads the header and index of a model file with a few Range requests, then
//! loads each tensor, decompressed and verified, from a URL, from disk or from memory. On wasm32 the bytes go straight
//! into an `ArrayBuffer` that JavaScript owns.
//!
//! # Load a model
//!
//! [`Model`] is the entry: it opens a path, a URL or an address on a model hub, lists tensors, and loads them on
//! demand. It is asynchronous, and runs under any executor. `blocking::Model` has the same calls:
//!
//! ```
//! # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
//! # fn main() -> weightstream::Result<()> {
//! use weightstream::blocking::Model;
//! use weightstream::{Dtype, LoadRequest};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.safetensors");
//! let header = r#"{"bias":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
//! std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat())?;
//!
//! let model = Model::open(&path)?; // or "https://…", or "hf:owner/name", with the feature `http`
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let bias = model.load("bias")?; // reads only the bytes of this tensor
//! assert_eq!(*bias.bytes()?, [0; 4]);
//! assert_eq!(*bias.as_f32()?, [0.0, 0.0]);
//!
//! let first = model.load(LoadRequest::new("bias").rows(0..1).dtype(Dtype::F32))?;
//! assert_eq!(first.shape(), [1]);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
//! # fn main() {}
//! ```
//!
//! # Tasks
//!
//! Most tasks have a page with an example:
//!
//! | task | page | calls |
//! | --- | --- | --- |
//! | list the tensors, load one, or rows of it | [load](guide::load) | [`Model::load`], [`Model::rows`] |
//! | compute with floats, also of quantized tensors | [compute](guide::compute) | [`LoadedTensor::as_f32`] |
//! | load all tensors, each as soon as it has arrived | [stream](guide::stream) | [`Model::stream`] |
//! | open a URL or an address on a hub; tokens, retries, progress | [remote](guide::remote) | [`OpenOptions`] |
//! | check a model, pin digests | [verify](guide::verify) | [`Model::verify`] |
//! | map files into memory | [map](guide::map) | `blocking::Model::open_mapped` |
//! | read from a source of your own | [source](guide::source) | [`SourceModel`] |
//! | load in a browser, with a cache and workers | [browser](guide::browser) | the module `web` |
//! | write a model in another format, or a NumPy array | [convert](guide::convert) | `write::convert` |
//! | sign a model, verify who published it | [sign](guide::sign) | [`signature`] |
//! | handle errors | [errors](guide::errors) | [`Error::kind`] |
//! | publish a model, download it, check its server | | the crate `weightstream-publish` |
//! | load into candle | | `var_builder` of the crate `weightstream-candle` |
//! | load into burn | | `WeightStore` of the crate `weightstream-burn` |
//!
//! # Use in WebAssembly
//!
//! On wasm32, [`Model`] loads models with the `fetch` of the browser. No function is exported from your module. With
//! the feature `web-workers`, it uses a cache and workers: see the module `web`.
//!
//! ```no_run
//! # #[cfg(target_arch = "wasm32")]
//! # async fn example() -> weightstream::Result<()> {
//! let model = weightstream::Model::open("https://example.org/model.safetensors").await?;
//! let bias = model.load("bias").await?.array()?; // a Uint8Array over memory that JavaScript owns
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `formats` (default) | all formats; each has a feature of its own, such as `safetensors` and `gguf` |
//! | `mmap` (default) | `blocking::Model::open_mapped` |
//! | `http` | models at URLs, natively |
//! | `write` | the module `write`: conversions, and NumPy arrays |
//! | `signatures` | signing models, and verifying signatures, natively |
//! | `web-workers` | a cache and workers in browsers |
//!
//! | dependency | crates | CPU time of a first build |
//! | --- | --- | --- |
//! | `cargo add weightstream --no-default-features --features safetensors` | 38 | 30 s |
//! | `cargo add weightstream` | 61 | 59 s |
//! | `cargo add weightstream --features http` | 129 | 100 s |
//!
//! `cargo tree -p weightstream -e normal,build --prefix none --no-dedupe | sort -u | wc -l` counts the crates.
//!
//! # Layers
//!
//! ```text
//!  Source ──▶ Window ──▶ format parser ──▶ Index (tensors, components) ──▶ plan (ranges to request)
//!    ▲           ▲  "need bytes 64..1024"                                       │
//!    └───────────┴──────────────────────────────────────────────────────────────┘
//!  Source ──▶ range reader ──▶ decoder + checksum ──▶ output buffer ──▶ ArrayBuffer · Vec<u8> · &[u8]
//! ```
//!
//! Each layer uses only those below it:
//!
//! | layer | modules | responsibility |
//! | --- | --- | --- |
//! | interfaces | `js` (feature `js`); the crate `weightstream-cli` | what apps and shells see |
//! | | the crate `weightstream-publish` | publishes models, and downloads and checks published ones |
//! | | `api` | `Model`, asynchronous and blocking |
//! | | [`guide`] | a page of the documentation for each task |
//! | | `web`, `workers` | the cache and the workers of browsers |
//! | engine | `write` | writes models |
//! | | `native` | reads local and remote models, blocking |
//! | | `loader` | opens and lists a model, and loads its tensors from any source |
//! | | `loader::schedule` | batches, connections, memory budget |
//! | | `loader::transfer` | reads ranges, retries and resumes |
//! | sources | [`source`], `cache` | byte sources; the persistent cache of browsers |
//! | | `hub` | addresses and answers of model hubs |
//! | core | `model` | which file is the model; how its files become one |
//! | | [`mod@format`] | one folder per format: parser, writer and tests |
//! | | `pipeline` | decodes, verifies, converts and expands components |
//! | | `quantization` | which tensors are parts of a quantized one; how codes become floats |
//! | | `adapter` | which tensors of a LoRA adapter update which weight; how updates are added |
//! | | `plan` | which ranges to request |
//! | | `trust` | which digests of whole files are compared before bytes are passed on |
//! | parts | `window`, `cursor`, `fields` | known bytes of a file, and how parsers read them |
//! | | `values` | JSON, CBOR and MessagePack, read within a memory budget |
//! | | `index`, `long_array`, `name_index` | tensors and components; long arrays of metadata; names |
//! | | `codec`, `output` | decoders and checksums; encoders and the files that are written |
//! | | `zip` | ZIP archives, which some formats are |
//! | | [`signature`] | signatures of models, and what they state |
//! | | `identity`, `status`, `retry` | the version of a file; what an HTTP status means; when to retry |
//! | | `names`, `location` | names of files in paths and URLs; what is a URL |
//! | platform | `browser`, `regular_file` | bindings to Web APIs: timers, locks, workers; files on disk |
//! | base | `algorithm`, `digest`, `digest_state`, `dtype`, `error`, `progress`, `on_progress` | vocabulary |
//! | | `buffer`, `host` | the memory of tensors; the clock and timers of the platform |
//! | | `deferred` | which parts of the npm package's module are loaded |
//! | | `setters`, `similar_names`, `small_map`, `sorting` | language: methods of options; suggestions; less code |
//!
//! The core does no I/O and has no clock. A parser reads its `window::Window` as if the whole file were in memory, and
//! stops where bytes are missing until the engine has fetched them.

#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
// Helpers that only some formats use are always compiled; the linker drops them. With all formats enabled, unused code
// is an error.
#![cfg_attr(not(feature = "formats"), allow(dead_code, unused_imports))]
#![deny(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]

#[cfg(all(test, native))]
extern crate self as weightstream; // code shared with the tests in `tests/` uses this name

mod adapter;
mod algorithm;
mod api;
#[cfg(web)]
mod browser;
mod buffer;
#[cfg(any(workers, all(test, native)))]
mod cache;
mod codec;
mod cursor;
mod deferred;
mod digest;
mod digest_state;
mod dtype;
mod error;
mod fields;
pub mod format;
#[cfg(doc)]
pub mod guide;
mod host;
#[cfg(remote)]
mod hub;
mod identity;
mod index;
#[cfg(npm)]
mod js;
mod loader;
mod location;
mod long_array;
mod model;
mod name_index;
mod names;
mod native;
mod on_progress;
#[cfg(writes)]
mod output;
mod pipeline;
mod plan;
mod progress;
mod quantization;
#[cfg(native)]
mod regular_file;
mod retry;
mod setters;
pub mod signature;
mod similar_names;
mod small_map;
mod sorting;
pub mod source;
#[cfg(any(remote, test))]
mod status;
#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod testing;
mod trust;
mod values;
#[cfg(workers)]
pub mod web;
mod window;
#[cfg(workers)]
mod workers;
#[cfg(writes)]
pub mod write;
#[cfg(feature = "zip")]
mod zip;

pub use adapter::{Adapter, AdapterConfig};
#[cfg(native)]
pub use api::StreamingLoader;
pub use api::{
    Element, LoadRequest, LoadedComponent, LoadedTensor, Model, OpenOptions, SourceModel, StreamRequest, TensorStream,
};
pub use dtype::Dtype;
pub use error::{Error, ErrorKind, Result};
pub use index::{Algorithm, Component, Digest, Layout, Metadata, Tensor};
#[cfg(web)]
pub use loader::Stats;
pub use loader::{ModelMetadata, Verified};
pub use on_progress::Progress;
pub use quantization::ModelConfig;
pub use retry::RetryPolicy;
#[cfg(remote)]
pub use source::Mirror;

/// Models with blocking calls, natively.
#[cfg(native)]
pub mod blocking {
    pub use crate::api::blocking::{Model, TensorIterator};
}

/// The Rust code blocks of the guides.
#[cfg(all(doctest, feature = "http", writes))]
mod guides {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/rust.md")]
    mod rust {}
    #[cfg(feature = "signatures")]
    #[doc = include_str!("../docs/signatures.md")]
    mod signatures {}
}

/// Parts of the crate for this repository's own command line, bindings, tests, fuzz targets and benchmarks, and for the
/// crate `weightstream-publish`. They are not part of the public API and may change in any version.
#[doc(hidden)]
pub mod internals {
    #[cfg(any(remote, test))]
    pub mod answer {
        pub use crate::source::answer::parse_content_range;
    }
    pub mod codec {
        pub use crate::codec::*;
    }
    pub mod dtype {
        pub use crate::dtype::*;
    }
    pub mod finder {
        pub use crate::model::finder::{Content, Found, advice, find, list};
    }
    pub mod error {
        pub use crate::error::*;
    }
    pub mod format {
        pub use crate::format::*;
    }
    #[cfg(http_client)]
    pub mod host {
        pub use crate::host::TokioHost;
    }
    #[cfg(http_client)]
    pub mod http {
        pub use crate::native::remote::block_on;
        pub use crate::source::http::client::{
            MAX_REDIRECTS, checked_headers, client, client_builder, network_error, parse_url, redirect_target,
            without_query,
        };
    }
    #[cfg(writes)]
    pub mod output {
        pub use crate::output::created_folders::CreatedFolders;
        pub use crate::output::destination::{Existing, check, check_free, is_input, replaced};
        pub use crate::output::file::{FinishedFile, PartialFile, ShardFile, publish, write as write_file};
        pub use crate::output::shards::{assign, content_name, file_count};
        pub use crate::output::target::{Naming, Sharded, Target, shares_bytes};
    }
    #[cfg(remote)]
    pub mod hub {
        pub use crate::hub::*;
    }
    pub mod index {
        pub use crate::index::*;
    }
    pub mod loader {
        pub use crate::loader::*;
    }
    pub mod location {
        pub use crate::location::*;
    }
    pub mod names {
        pub use crate::names::*;
    }
    pub mod native {
        pub use crate::native::*;
    }
    pub mod pool {
        pub use crate::pipeline::{Job, Outcome, Pool, Received, StoredChunk, Task, TaskError, Work};
    }
    pub mod publication {
        pub use crate::index::differences::{BEFORE, MAX_STEPS};
        pub use crate::index::part::{MAX_PARTS, part_path};
        pub use crate::index::publication::{COPIES, DENSE, DIFFERENCES, KEY, Publication, STATES};
    }
    #[cfg(native)]
    pub mod regular_file {
        pub use crate::regular_file::{Opened, open};
    }
    pub mod progress {
        pub use crate::progress::*;
    }
    pub mod retry {
        pub use crate::retry::*;
    }
    pub mod signature {
        pub use crate::signature::*;
        #[cfg(signs)]
        pub use crate::signature::{
            sign_folder_with as sign_folder, verify_file_with as verify_file, verify_folder_with as verify_folder,
        };
    }
    pub mod source {
        pub use crate::source::*;
    }
    pub mod window {
        pub use crate::window::*;
    }
    #[cfg(writes)]
    pub mod write {
        pub use crate::write::cancellation::check_cancelled;
        pub use crate::write::conversion::Conversion;
        pub use crate::write::plan::{Plan, Sources};
        pub use crate::write::*;
        pub use crate::write::{convert_with as convert, extract_with as extract_npy};
    }
}
