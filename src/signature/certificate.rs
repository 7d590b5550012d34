//! Certificates of signers: a chain up to a root that the caller trusts. `weightstream-certificates` verifies it.

use super::{PublicKey, invalid, refusal};
use crate::error::{Error, ErrorKind, Result};

/// The certificates of roots that are trusted to name signers.
#[derive(Debug)]
pub struct Roots(weightstream_certificates::Roots);

impl Roots {
    /// Parses one or more certificates in PEM.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if there is none, or if one is not a certificate.
    pub fn from_pem(text: &str) -> Result<Self> {
        let roots = weightstream_signatures::pem::certificates(text).map_err(refusal::refused)?;
        Ok(Roots(weightstream_certificates::Roots::from_der(roots).map_err(refused)?))
    }

    /// Verifies a chain that starts with the certificate of the signer. Returns the signer's key.
    pub(super) fn verify(&self, chain: &[Vec<u8>]) -> Result<PublicKey> {
        let key = self.0.verify(chain, weightstream_certificates::algorithms()).map_err(refused)?;
        PublicKey::from_der(&key).ok_or_else(|| {
            let what =
                "the key of the signer's certificate is not for ECDSA on one of the curves P-256, P-384 and P-521";
            Error::new(ErrorKind::Unsupported, what).advise("Sign the model with a certificate for such a key.")
        })
    }
}

fn refused(error: weightstream_certificates::Error) -> Error {
    match error {
        weightstream_certificates::Error::Root(what) => {
            let error = Error::new(ErrorKind::InvalidArgument, what);
            error.advise("Trust the certificate of the root, as the organization of the signer publishes it.")
        }
        error => invalid(error.to_string()),
    }
}
