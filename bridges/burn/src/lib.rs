//! Applies model weights that [weightstream] loads to modules of burn: from files, from URLs, and in the browser.
//!
//! [`WeightStore`] is a [`ModuleStore`](burn_store::ModuleStore), so `module.load_from(&mut store)` reports applied,
//! missing and unused tensors as the stores of burn do. Key remapping, filters and adapters are those of burn-store:
//! `WeightStore::with_adapter(PyTorchToBurnAdapter)` transposes the linear layers of a model from PyTorch.
//!
//! - [`WeightStore::load`] takes the tensors from an async [`Loader`](weightstream::loader::Loader): wasm32, HTTP,
//!   memory. They are all loaded before they can be applied, because burn reads tensors synchronously. In the browser,
//!   `weightstream::web::open(url, options)` gives the loader.
//! - [`WeightStore::read`] reads each tensor from a file when it is applied.
//!
//! ```
//! use std::rc::Rc;
//! use burn_store::ModuleStore;
//! use weightstream::loader::{Loader, Options};
//! use weightstream::source::memory::MemorySource;
//! use weightstream_burn::WeightStore;
//!
//! let header = r#"{"fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
//! let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
//! futures::executor::block_on(async {
//!     let source = MemorySource::new(vec![("model.safetensors".to_owned(), file.into())])?;
//!     let loader = Rc::new(Loader::open(source, Options::default()).await?);
//!     let mut store = WeightStore::load(&loader, None, Rc::new(())).await?;
//!     assert_eq!(store.keys()?, ["fc.bias"]); // then `model.load_from(&mut store)?`
//!     Ok::<_, weightstream::Error>(())
//! })
//! .unwrap();
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod convert;
mod store;

pub use store::WeightStore;

/// The snippets of `docs/burn.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/burn.md")]
mod documentation {}

/// The snippet of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
