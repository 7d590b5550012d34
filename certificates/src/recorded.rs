//! Signatures whose results are known beforehand, because WebCrypto computes them asynchronously.
//!
//! A chain is verified in rounds. An algorithm that is asked for an unknown signature records it and says that it is
//! invalid. The caller verifies what was recorded, and then the chain is verified again. A round that met only known
//! signatures decides about the chain.

use crate::chain::{Error, Roots};
use rustls_pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A signature algorithm, in the terms of WebCrypto.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Algorithm {
    /// The name of the algorithm, such as `ECDSA`.
    pub name: &'static str,
    /// The curve of the key, such as `P-256`, or `""`.
    pub curve: &'static str,
    /// The hash function, such as `SHA-256`, or `""`.
    pub hash: &'static str,
}

/// A signature that the chain depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignatureCheck {
    /// How it is verified.
    pub algorithm: Algorithm,
    /// The key that must have made it: a SubjectPublicKeyInfo in DER.
    pub key: Vec<u8>,
    /// What must have been signed.
    pub message: Vec<u8>,
    /// The signature; of ECDSA in DER.
    pub signature: Vec<u8>,
}

/// The signatures of one chain, and their results.
#[derive(Debug)]
pub struct RecordedSignatures {
    known: Known,
    algorithms: Vec<Lookup>,
}

/// Each signature with its result, which is `None` until it is verified.
type Known = Arc<Mutex<Vec<(SignatureCheck, Option<bool>)>>>;

impl RecordedSignatures {
    /// Starts without any known signature.
    pub fn new() -> Self {
        let known = Known::default();
        let algorithm = |(name, curve, hash, key_id, signature_id)| Lookup {
            algorithm: Algorithm { name, curve, hash },
            key_id,
            signature_id,
            known: Arc::clone(&known),
        };
        RecordedSignatures { algorithms: ALGORITHMS.into_iter().map(algorithm).collect(), known }
    }

    /// Verifies a chain with the results that are known, as [`Roots::verify`] does. Returns `None` if more must be:
    /// those that [`RecordedSignatures::unverified`] returns.
    pub fn verify(&self, roots: &Roots, chain: &[Vec<u8>]) -> Option<Result<Vec<u8>, Error>> {
        let algorithms: Vec<_> =
            self.algorithms.iter().map(|lookup| lookup as &dyn SignatureVerificationAlgorithm).collect();
        let outcome = roots.verify(chain, &algorithms);
        let is_decided = lock(&self.known).iter().all(|(_, result)| result.is_some());
        is_decided.then_some(outcome)
    }

    /// The next signature without a result, and its number.
    pub fn unverified(&self) -> Option<(usize, SignatureCheck)> {
        let known = lock(&self.known);
        let found = known.iter().enumerate().find(|(_, (_, result))| result.is_none());
        found.map(|(number, (check, _))| (number, check.clone()))
    }

    /// Sets the result of the signature with this number.
    pub fn set(&self, number: usize, is_valid: bool) {
        if let Some((_, result)) = lock(&self.known).get_mut(number) {
            *result = Some(is_valid);
        }
    }
}

impl Default for RecordedSignatures {
    fn default() -> Self {
        Self::new()
    }
}

/// The parameters of an [`Algorithm`], and the identifiers of its keys and signatures in certificates.
type Identified = (&'static str, &'static str, &'static str, AlgorithmIdentifier, AlgorithmIdentifier);

/// The algorithms that ring has, too, so that chains that are valid natively are valid here.
const ALGORITHMS: [Identified; 14] = [
    ("ECDSA", "P-256", "SHA-256", alg_id::ECDSA_P256, alg_id::ECDSA_SHA256),
    ("ECDSA", "P-256", "SHA-384", alg_id::ECDSA_P256, alg_id::ECDSA_SHA384),
    ("ECDSA", "P-384", "SHA-256", alg_id::ECDSA_P384, alg_id::ECDSA_SHA256),
    ("ECDSA", "P-384", "SHA-384", alg_id::ECDSA_P384, alg_id::ECDSA_SHA384),
    ("Ed25519", "", "", alg_id::ED25519, alg_id::ED25519),
    (PKCS1, "", "SHA-256", alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA256),
    (PKCS1, "", "SHA-384", alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA384),
    (PKCS1, "", "SHA-512", alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA512),
    (PKCS1, "", "SHA-256", alg_id::RSA_ENCRYPTION, without_parameters(b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b")),
    (PKCS1, "", "SHA-384", alg_id::RSA_ENCRYPTION, without_parameters(b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c")),
    (PKCS1, "", "SHA-512", alg_id::RSA_ENCRYPTION, without_parameters(b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d")),
    ("RSA-PSS", "", "SHA-256", alg_id::RSA_ENCRYPTION, alg_id::RSA_PSS_SHA256),
    ("RSA-PSS", "", "SHA-384", alg_id::RSA_ENCRYPTION, alg_id::RSA_PSS_SHA384),
    ("RSA-PSS", "", "SHA-512", alg_id::RSA_ENCRYPTION, alg_id::RSA_PSS_SHA512),
];

const PKCS1: &str = "RSASSA-PKCS1-v1_5";

/// RFC 4055 requires that implementations accept RSA identifiers without their parameter, which is NULL.
const fn without_parameters(oid: &'static [u8]) -> AlgorithmIdentifier {
    AlgorithmIdentifier::from_slice(oid)
}

/// An algorithm that looks results up.
#[derive(Debug)]
struct Lookup {
    algorithm: Algorithm,
    key_id: AlgorithmIdentifier,
    signature_id: AlgorithmIdentifier,
    known: Known,
}

impl SignatureVerificationAlgorithm for Lookup {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let check = SignatureCheck {
            algorithm: self.algorithm,
            key: key_info(self.key_id, key),
            message: message.to_vec(),
            signature: signature.to_vec(),
        };
        let mut known = lock(&self.known);
        // A result is that of exactly this algorithm, key, message and signature.
        match known.iter().find(|(other, _)| *other == check) {
            Some((_, Some(true))) => return Ok(()),
            Some(_) => {}
            None => known.push((check, None)),
        }
        Err(InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key_id
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature_id
    }
}

/// A SubjectPublicKeyInfo: a sequence of the identifier, which is a sequence, and of the key, which is a bit string.
fn key_info(id: AlgorithmIdentifier, key: &[u8]) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 3;
    const UNUSED_BITS: u8 = 0;
    let key = element(BIT_STRING, &[&[UNUSED_BITS], key].concat());
    element(SEQUENCE, &[element(SEQUENCE, id.as_ref()), key].concat())
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut encoded = vec![tag];
    if length < 0x80 {
        encoded.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let bytes: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
        encoded.push(0x80 | bytes.len() as u8);
        encoded.extend(bytes);
    }
    encoded.extend_from_slice(content);
    encoded
}

/// All algorithms, each with the identifiers of its keys and signatures.
#[cfg(test)]
pub(crate) fn identified() -> Vec<(Algorithm, [Vec<u8>; 2])> {
    let of = |(name, curve, hash, key, signature): &Identified| {
        let algorithm = Algorithm { name, curve, hash };
        (algorithm, [key.as_ref().to_vec(), signature.as_ref().to_vec()])
    };
    ALGORITHMS.iter().map(of).collect()
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
