//! Loads model weights with [weightstream] into [candle](candle_core): from files, from URLs, and in the browser.
//!
//! Tensors arrive one after another in file order, verified as the format allows, and become candle tensors at once.
//! Memory holds at most the model and a few tensors.
//!
//! [`var_builder`], [`tensors`](tensors()) and [`qtensors`] load from a [`Model`](weightstream::Model); natively, the
//! module `blocking` has the same functions for a `weightstream::blocking::Model`. Errors are those of weightstream; an
//! error of candle is their cause.
//!
//! ```
//! # #[cfg(not(target_arch = "wasm32"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use candle_core::{DType, Device};
//! use weightstream::blocking::Model;
//! use weightstream_candle::{Request, blocking::var_builder};
//!
//! # let header = r#"{"fc.weight":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}"#;
//! # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0, 0x3c, 0, 0x40]].concat();
//! let model = Model::from_bytes([("model.safetensors", file)])?; // or Model::open("model.safetensors")?
//! let weights = var_builder(&model, DType::F32, &Request::new(&Device::Cpu))?;
//! let layer = candle_nn::linear_no_bias(2, 1, weights.pp("fc"))?;
//! assert_eq!(layer.weight().to_vec2::<f32>()?, [[1.0, 2.0]]);
//! # Ok(())
//! # }
//! # #[cfg(target_arch = "wasm32")]
//! # fn main() {}
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(not(target_arch = "wasm32"))]
pub mod blocking;
mod convert;
mod quantized;
mod request;
mod tensors;

pub use quantized::qtensors;
pub use request::Request;
pub use tensors::{tensors, var_builder};

/// The snippets of `docs/candle.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/candle.md")]
mod documentation {}

/// The snippet of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
