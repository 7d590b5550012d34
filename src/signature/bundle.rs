//! Verifies and signs bundles. The crate `weightstream-signatures` parses them and decides what is acceptable, natively
//! as in browsers; the cryptography is here.

use super::refusal::refused;
use super::{PrivateKey, PublicKey, Roots, Statement};
use crate::error::Result;
use weightstream_signatures::Bundle;

/// The maximum length of a bundle. A bundle has about 200 bytes per file, and models have at most thousands of files.
pub const MAX_BUNDLE_BYTES: u64 = weightstream_signatures::MAX_BUNDLE_BYTES;

/// Whom to trust.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trust {
    /// The owner of this key.
    Key(PublicKey),
    /// The owners of the certificates that one of these roots has issued.
    Certificates(Roots),
}

/// Verifies a signature, and returns what it states.
///
/// # Errors
/// `SIGNATURE` if it is not valid; `UNSUPPORTED` for other kinds of signatures, such as those of Sigstore's keyless
/// mode.
pub fn verify(bundle: &[u8], trust: &Trust) -> Result<Statement> {
    let bundle = Bundle::parse(bundle).map_err(refused)?;
    let key = match trust {
        Trust::Key(key) => {
            bundle.check_key(Some(&key.to_der()?)).map_err(refused)?;
            key.clone()
        }
        Trust::Certificates(roots) => roots.verify(bundle.certificates().map_err(refused)?)?,
    };
    let is_valid = key.verifies(&bundle.message(), bundle.signature());
    Statement::new(bundle.statement(is_valid).map_err(refused)?)
}

/// Signs a statement. Returns the bundle in JSON.
pub(super) fn sign(statement: &Statement, key: &PrivateKey) -> Result<String> {
    let payload = statement.payload();
    let signature = key.sign(&weightstream_signatures::message_of(payload.as_bytes()))?;
    Ok(weightstream_signatures::envelope(payload.as_bytes(), &signature, &key.public_key().to_der()?))
}
