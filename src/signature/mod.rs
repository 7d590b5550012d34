//! Signed models: [OpenSSF Model Signing](https://github.com/ossf/model-signing-spec) version 1.0, as the package
//! `model-signing` on PyPI writes and verifies it.
//!
//! A signature is a Sigstore bundle: JSON with a DSSE envelope, whose payload is an in-toto statement that lists the
//! digest of every file of the model. The key or the certificate signs the payload (ECDSA with P-256, P-384 or P-521).
//! Once the signature is verified, the digests are what the files must have.
//!
//! [`SignedFiles`] is what a verified signature states; with [`OpenOptions::signature`](crate::OpenOptions::signature),
//! a model returns only bytes that match it. The other items need the feature `signatures` and are native only: in
//! browsers, WebCrypto verifies signatures.

#[cfg(signs)]
mod bundle;
#[cfg(signs)]
mod certificate;
mod files;
#[cfg(signs)]
mod folder;
#[cfg(signs)]
mod key;
#[cfg(signs)]
mod refusal;
#[cfg(signs)]
mod statement;
#[cfg(all(test, signs))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;

#[cfg(signs)]
#[doc(hidden)]
pub use bundle::MAX_BUNDLE_BYTES;
#[cfg(signs)]
pub use bundle::{Trust, verify};
#[cfg(signs)]
pub use certificate::Roots;
#[doc(hidden)]
pub use files::SignedFile;
pub use files::SignedFiles;
#[cfg(signs)]
pub use folder::{sign_folder, verify_file, verify_folder};
#[cfg(signs)]
#[doc(hidden)]
pub use folder::{sign_folder_with, verify_file_with, verify_folder_with};
#[cfg(signs)]
pub use key::{PrivateKey, PublicKey};
#[cfg(signs)]
pub use statement::Statement;

use crate::error::{Error, ErrorKind};

/// An error of kind [`ErrorKind::Signature`].
pub(crate) fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Signature, what)
}
