//! Certificates of the signers of models, for [weightstream](https://crates.io/crates/weightstream): a chain up to a
//! root that the caller trusts.
//!
//! `rustls-webpki` verifies the chain: signatures, validity, CA flags, path lengths, name constraints. Natively, ring
//! computes the signatures. In browsers, WebCrypto does, which is asynchronous and therefore cannot be called by
//! `rustls-webpki`: [`RecordedSignatures`] records which signatures must be verified, and looks up their results.
//!
//! This is a crate of its own because the npm package compiles it to a module of its own: only apps that verify
//! certificates load it.

mod chain;
mod issuers;
mod recorded;
#[cfg(all(test, not(target_arch = "wasm32")))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
#[cfg(all(feature = "module", target_arch = "wasm32"))]
mod web;

pub use chain::{Error, Roots};
pub use recorded::{Algorithm, RecordedSignatures, SignatureCheck};

/// The algorithms that ring computes.
#[cfg(feature = "ring")]
pub fn algorithms() -> &'static [&'static dyn rustls_pki_types::SignatureVerificationAlgorithm] {
    webpki::ALL_VERIFICATION_ALGS
}
