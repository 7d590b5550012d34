//! Loads model weights with [weightstream] into [candle](candle_core): from files, from URLs, and in the browser.
//!
//! Tensors arrive one after another in file order, verified as the format allows, and become candle tensors at once.
//! Memory holds at most the model and one more tensor for each connection of the loader
//! ([`Options::concurrency`](weightstream::loader::Options::concurrency)).
//!
//! - From a [`Loader`](weightstream::loader::Loader), async, on wasm32, over HTTP or from memory: [`var_builder`],
//!   [`tensors`], [`qtensors`].
//! - From a [`Reader`](weightstream::native::Reader), blocking, over files or mmap: [`read_var_builder`],
//!   [`read_tensors`], [`read_qtensors`].
//!
//! In the browser, `weightstream::web::open(url, options)` gives the loader. Errors are those of weightstream; an error
//! of candle is their cause.
//!
//! ```
//! use candle_core::{DType, Device};
//! use std::rc::Rc;
//! use weightstream::loader::{Loader, Options};
//! use weightstream::source::memory::MemorySource;
//! use weightstream_candle::{Request, var_builder};
//!
//! let header = r#"{"fc.weight":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}"#;
//! let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0, 0x3c, 0, 0x40]].concat();
//! futures::executor::block_on(async {
//!     let source = MemorySource::new(vec![("model.safetensors".to_owned(), file.into())])?;
//!     let loader = Rc::new(Loader::open(source, Options::default()).await?);
//!     let weights = var_builder(&loader, DType::F32, &Request::new(&Device::Cpu), Rc::new(())).await?;
//!     let layer = candle_nn::linear_no_bias(2, 1, weights.pp("fc"))?;
//!     assert_eq!(layer.weight().to_vec2::<f32>()?, [[1.0, 2.0]]);
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })
//! .unwrap();
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod convert;
mod quantized;
mod request;
mod tensors;

pub use quantized::{qtensors, read_qtensors};
pub use request::Request;
pub use tensors::{read_tensors, read_var_builder, tensors, var_builder};

/// The snippets of `docs/candle.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/candle.md")]
mod documentation {}

/// The snippet of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
