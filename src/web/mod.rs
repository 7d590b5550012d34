//! The cache and the workers of models that Rust applications load in browsers, with the feature `web-workers`.
//!
//! [`OpenOptions::cache`](crate::OpenOptions::cache) keeps downloaded files for the next visit, and
//! [`OpenOptions::workers`](crate::OpenOptions::workers) decodes and verifies tensors beside the thread of the page.
//! Both run your own module in workers, with a script that `wasm-bindgen --target web` (and so wasm-pack and Trunk)
//! writes to the folder `snippets` beside your module. A `start` function, or `main`, then also runs in the workers,
//! and must return there at once:
//!
//! ```no_run
//! # #[cfg(all(target_arch = "wasm32", feature = "web-workers"))]
//! # mod app {
//! # use wasm_bindgen::prelude::wasm_bindgen;
//! #[wasm_bindgen(start)]
//! fn start() {
//!     if weightstream::web::is_worker() {
//!         return;
//!     }
//!     // shows the app
//! }
//!
//! async fn load() -> weightstream::Result<()> {
//!     use weightstream::{OpenOptions, web};
//!
//!     let options = OpenOptions::new().cache(web::Cache::Auto).workers(web::default_workers());
//!     let model = options.open("https://example.org/model.apr").await?;
//!     if let Some(reason) = model.cache_error() {
//!         // The model is loaded from the network.
//!     }
//!     Ok(())
//! }
//! # }
//! ```
//!
//! With a bundler, or with `wasm-bindgen --target bundler`, set the worker with `set_worker`.

mod cache;
mod report;
mod workers;

pub(crate) use cache::add_to as add_cache;
pub use cache::{Cache, CachedFile, cached_files, clear_cache, delete_cached};
pub(crate) use report::Report;
pub(crate) use workers::add_to as add_workers;
pub use workers::{default_workers, is_worker, set_worker};
