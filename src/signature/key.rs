//! ECDSA keys on the curves of OpenSSF Model Signing, in PEM.

use super::refusal::refused;
use crate::error::{Error, ErrorKind, Result};
use p256::ecdsa::signature::{Signer, Verifier};
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePublicKey};
use weightstream_signatures::pem;

/// Defines the keys of all curves. Each curve has its hash algorithm: SHA-256, SHA-384, SHA-512.
macro_rules! keys {
    ($($curve:ident in $package:ident;)+) => {
        #[derive(Clone)]
        enum Public {
            $($curve(Box<$package::ecdsa::VerifyingKey>),)+
        }

        enum Private {
            $($curve(Box<$package::ecdsa::SigningKey>),)+
        }

        impl Public {
            fn parse_der(der: &[u8]) -> Option<Self> {
                $(if let Ok(key) = $package::PublicKey::from_public_key_der(der) {
                    return Some(Public::$curve(Box::new(key.into())));
                })+
                None
            }

            fn der(&self) -> Option<Vec<u8>> {
                match self {
                    $(Public::$curve(key) => {
                        $package::PublicKey::from(&**key).to_public_key_der().ok().map(|der| der.into_vec())
                    })+
                }
            }

            fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
                match self {
                    $(Public::$curve(key) => $package::ecdsa::Signature::from_der(signature)
                        .is_ok_and(|signature| key.verify(message, &signature).is_ok()),)+
                }
            }
        }

        impl Private {
            fn parse(pem: &str) -> Option<Self> {
                $(if let Ok(key) = $package::SecretKey::from_pkcs8_pem(pem) {
                    return Some(Private::$curve(Box::new(key.into())));
                })+
                None
            }

            fn parse_sec1(pem: &str) -> Option<Self> {
                $(if let Ok(key) = $package::SecretKey::from_sec1_pem(pem) {
                    return Some(Private::$curve(Box::new(key.into())));
                })+
                None
            }

            fn public(&self) -> Public {
                match self {
                    $(Private::$curve(key) => Public::$curve(Box::new(*key.verifying_key())),)+
                }
            }

            fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
                match self {
                    $(Private::$curve(key) => {
                        let signature: $package::ecdsa::Signature = key.try_sign(message).ok()?;
                        Some(signature.to_der().as_bytes().to_vec())
                    })+
                }
            }
        }
    };
}

keys! {
    P256 in p256;
    P384 in p384;
    P521 in p521;
}

/// A key that verifies signatures.
#[derive(Clone)]
pub struct PublicKey(Public);

/// A key that signs.
pub struct PrivateKey(Private);

impl PublicKey {
    /// Parses a public key in PEM, as `openssl pkey -pubout` writes it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for anything else, and for other algorithms and curves.
    pub fn from_pem(text: &str) -> Result<Self> {
        let der = pem::public_key(text).map_err(refused)?;
        Self::from_der(&der).ok_or_else(|| unsupported("public"))
    }

    /// Parses a SubjectPublicKeyInfo. `None` for other algorithms and curves.
    pub(super) fn from_der(der: &[u8]) -> Option<Self> {
        Public::parse_der(der).map(PublicKey)
    }

    /// Whether this is the ECDSA signature of a message, in DER.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verifies(message, signature)
    }

    /// The key as a SubjectPublicKeyInfo, in the form that bundles name.
    pub(super) fn to_der(&self) -> Result<Vec<u8>> {
        self.0.der().ok_or_else(|| Error::new(ErrorKind::Internal, "the key cannot be written"))
    }
}

impl PrivateKey {
    /// Parses a private key in PEM: PKCS #8 or SEC 1, not encrypted.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for anything else, and for other algorithms and curves.
    pub fn from_pem(text: &str) -> Result<Self> {
        let key = match pem::block(text, &["PRIVATE KEY", "EC PRIVATE KEY"]).map_err(refused)? {
            ("PRIVATE KEY", block) => Private::parse(block),
            (_, block) => Private::parse_sec1(block),
        };
        key.map(PrivateKey).ok_or_else(|| unsupported("private"))
    }

    /// The key that verifies what this one signs.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.public())
    }

    /// Signs a message. The signature is in DER; equal messages have equal signatures (RFC 6979).
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        self.0.sign(message).ok_or_else(|| Error::new(ErrorKind::Internal, "the key cannot sign"))
    }
}

/// Shows no part of the key.
impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey")
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hint = self.0.der().map(|der| weightstream_signatures::key_hint(&der)).unwrap_or_default();
        f.debug_tuple("PublicKey").field(&hint).finish()
    }
}

fn unsupported(which: &str) -> Error {
    let what = format!("this is not a {which} key for ECDSA on one of the curves P-256, P-384 and P-521");
    let advice = "Create a key with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem";
    Error::new(ErrorKind::InvalidArgument, what).advise(advice)
}
