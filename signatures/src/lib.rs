//! Signatures of models, for [weightstream](https://crates.io/crates/weightstream): what a signature says, and whether
//! it is acceptable, as the package `model-signing` on PyPI judges it.
//!
//! A caller parses a [`Bundle`], obtains the key that must have signed it, verifies the ECDSA signature of
//! [`Bundle::message`], and passes the result to [`Bundle::statement`]. The cryptography is the caller's: natively that
//! of a crate, in browsers WebCrypto, which is asynchronous.
//!
//! This is a crate of its own because the npm package compiles it to a module of its own: only apps that open signed
//! models load it.

mod bundle;
mod ecdsa;
mod fields;
pub mod pem;
mod refusal;
mod statement;
#[cfg(all(test, not(target_arch = "wasm32")))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
#[cfg(all(feature = "module", target_arch = "wasm32"))]
mod web;

pub use bundle::{Bundle, MAX_BUNDLE_BYTES, envelope, message_of};
pub use ecdsa::{Curve, key_hint};
pub use refusal::{Kind, Refusal};
pub use statement::{Resource, Statement, payload};
