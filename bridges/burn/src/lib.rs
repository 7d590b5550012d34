//! Applies model weights that [weightstream] loads to modules of burn: from files, from URLs, and in the browser.
//!
//! [`WeightStore`] is a [`ModuleStore`](burn_store::ModuleStore), so `module.load_from(&mut store)` reports applied,
//! missing and unused tensors as the stores of burn do. Key remapping, filters and adapters are those of burn-store:
//! `WeightStore::with_adapter(PyTorchToBurnAdapter)` transposes the linear layers of a model from PyTorch.
//!
//! - [`WeightStore::load`] takes the tensors from a [`Model`](weightstream::Model), natively and in the browser. They
//!   are all loaded before they can be applied, because burn reads tensors synchronously.
//! - `WeightStore::read` reads each tensor of a `weightstream::blocking::Model` when it is applied.
//!
//! ```
//! # #[cfg(not(target_arch = "wasm32"))]
//! # fn main() -> weightstream::Result<()> {
//! use burn_store::ModuleStore;
//! use weightstream::blocking::Model;
//! use weightstream_burn::WeightStore;
//!
//! # let header = r#"{"fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
//! # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
//! let model = Model::from_bytes([("model.safetensors", file)])?; // or Model::open("model.safetensors")?
//! let mut store = WeightStore::read(&model)?;
//! assert_eq!(store.keys()?, ["fc.bias"]); // then `model.load_from(&mut store)?`
//! # Ok(())
//! # }
//! # #[cfg(target_arch = "wasm32")]
//! # fn main() {}
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
