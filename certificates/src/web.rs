//! The interface of the module, which `signature/chain.js` of the npm package calls.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use crate::{Error, RecordedSignatures, Roots, SignatureCheck};
use wasm_bindgen::prelude::*;
use weightstream_signatures::Curve;

/// A chain that is being verified.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Chain {
    roots: Vec<Vec<u8>>,
    certificates: Vec<Vec<u8>>,
    signatures: RecordedSignatures,
}

#[wasm_bindgen]
impl Chain {
    /// Starts without certificates.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a trusted root in DER.
    #[wasm_bindgen(js_name = addRoot)]
    pub fn add_root(&mut self, root: Vec<u8>) {
        self.roots.push(root);
    }

    /// Adds the certificate of the signer in DER, then those that issued it.
    pub fn add(&mut self, certificate: Vec<u8>) {
        self.certificates.push(certificate);
    }

    /// Returns the signer's key, or `undefined` if signatures must be verified first.
    pub fn verify(&self) -> Result<Option<Vec<u8>>, Refusal> {
        let roots = Roots::from_der(self.roots.clone()).map_err(Refusal)?;
        self.signatures.verify(&roots, &self.certificates).transpose().map_err(Refusal)
    }

    /// The next signature to verify.
    pub fn unverified(&self) -> Option<Unverified> {
        let (number, check) = self.signatures.unverified()?;
        Some(Unverified { number, check })
    }

    /// Sets the result of a signature.
    pub fn set(&self, number: usize, is_valid: bool) {
        self.signatures.set(number, is_valid);
    }
}

/// A signature to verify.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Unverified {
    number: usize,
    check: SignatureCheck,
}

#[wasm_bindgen]
impl Unverified {
    /// Its number.
    #[wasm_bindgen(getter)]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The name of the algorithm.
    #[wasm_bindgen(getter)]
    pub fn algorithm(&self) -> String {
        self.check.algorithm.name.to_owned()
    }

    /// The curve of the key, or `""`.
    #[wasm_bindgen(getter)]
    pub fn curve(&self) -> String {
        self.check.algorithm.curve.to_owned()
    }

    /// The hash function, or `""`.
    #[wasm_bindgen(getter)]
    pub fn hash(&self) -> String {
        self.check.algorithm.hash.to_owned()
    }

    /// The SubjectPublicKeyInfo in DER.
    #[wasm_bindgen(getter)]
    pub fn key(&self) -> Vec<u8> {
        self.check.key.clone()
    }

    /// What was signed.
    #[wasm_bindgen(getter)]
    pub fn message(&self) -> Vec<u8> {
        self.check.message.clone()
    }

    /// The signature as WebCrypto takes it. `undefined` if it is none.
    #[wasm_bindgen(getter)]
    pub fn signature(&self) -> Option<Vec<u8>> {
        match Curve::named(self.check.algorithm.curve) {
            Some(curve) => curve.raw_signature(&self.check.signature),
            None => Some(self.check.signature.clone()),
        }
    }
}

/// Why certificates are refused.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Refusal(Error);

#[wasm_bindgen]
impl Refusal {
    /// Whether a root is the reason, which the caller has passed.
    #[wasm_bindgen(getter, js_name = isOfRoot)]
    pub fn is_of_root(&self) -> bool {
        matches!(self.0, Error::Root(_))
    }

    /// The reason.
    #[wasm_bindgen(getter)]
    pub fn message(&self) -> String {
        self.0.to_string()
    }
}
