//! The interface of the module, which `signature/signature.js` of the npm package calls.

#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use crate::{Curve, Kind, MAX_BUNDLE_BYTES, pem};
use wasm_bindgen::prelude::*;

/// A signature that is being verified.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Bundle(crate::Bundle);

#[wasm_bindgen]
impl Bundle {
    /// The maximum length of a bundle.
    #[wasm_bindgen(js_name = maxBytes)]
    pub fn max_bytes() -> f64 {
        MAX_BUNDLE_BYTES as f64
    }

    /// Parses a bundle.
    pub fn parse(bytes: &[u8]) -> Result<Bundle, Refusal> {
        crate::Bundle::parse(bytes).map(Bundle).map_err(Refusal)
    }

    /// Checks that the bundle was signed with a key, and that it does not name another one than this
    /// SubjectPublicKeyInfo in DER. Without it, the name is not compared.
    #[wasm_bindgen(js_name = checkKey)]
    pub fn check_key(&self, key: Option<Vec<u8>>) -> Result<(), Refusal> {
        self.0.check_key(key.as_deref()).map_err(Refusal)
    }

    /// Returns the number of certificates.
    #[wasm_bindgen(js_name = countCertificates)]
    pub fn count_certificates(&self) -> Result<usize, Refusal> {
        self.0.certificates().map(<[_]>::len).map_err(Refusal)
    }

    /// A certificate in DER: first that of the signer, then those that issued it.
    pub fn certificate(&self, number: usize) -> Option<Vec<u8>> {
        self.0.certificates().ok()?.get(number).cloned()
    }

    /// The bytes that the key must have signed.
    pub fn message(&self) -> Vec<u8> {
        self.0.message()
    }

    /// The signature as WebCrypto takes it, for a key on a curve such as `P-256`. `undefined` if it is none.
    pub fn signature(&self, curve: &str) -> Option<Vec<u8>> {
        Curve::named(curve)?.raw_signature(self.0.signature())
    }

    /// The hash function of keys on a curve. `undefined` for curves that are not supported.
    pub fn hash(curve: &str) -> Option<String> {
        Curve::named(curve).map(|curve| curve.hash().to_owned())
    }

    /// Returns what the signature states. `is_valid` is the result of verifying the signature of the message.
    pub fn statement(&self, is_valid: bool) -> Result<Statement, Refusal> {
        self.0.statement(is_valid).map(Statement).map_err(Refusal)
    }
}

/// The SubjectPublicKeyInfo of the first public key in a text in PEM.
#[wasm_bindgen(js_name = publicKeyInPem)]
pub fn public_key_in_pem(text: &str) -> Result<Vec<u8>, Refusal> {
    pem::public_key(text).map_err(Refusal)
}

/// The certificates in a text in PEM, by number.
#[wasm_bindgen]
#[derive(Debug)]
pub struct PemCertificates(Vec<Vec<u8>>);

#[wasm_bindgen]
impl PemCertificates {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<PemCertificates, Refusal> {
        pem::certificates(text).map(PemCertificates).map_err(Refusal)
    }

    /// The number of certificates.
    #[wasm_bindgen(getter)]
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// A certificate in DER.
    pub fn certificate(&self, number: usize) -> Option<Vec<u8>> {
        self.0.get(number).cloned()
    }
}

/// What a signature states: the digests of files, or of pieces of them, by number.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Statement(crate::Statement);

#[wasm_bindgen]
impl Statement {
    /// The number of digests.
    #[wasm_bindgen(getter)]
    pub fn length(&self) -> usize {
        self.0.resources.len()
    }

    /// The path of the file.
    pub fn path(&self, number: usize) -> Option<String> {
        Some(self.0.resources.get(number)?.path.clone())
    }

    /// The digest, with its algorithm.
    pub fn digest(&self, number: usize) -> Option<String> {
        let resource = self.0.resources.get(number)?;
        Some([resource.algorithm, ":", &resource.digest_text()].concat())
    }

    /// The offset of the piece.
    pub fn start(&self, number: usize) -> Option<f64> {
        Some(self.0.resources.get(number)?.start as f64)
    }

    /// The end of the piece. `undefined` for a whole file.
    pub fn end(&self, number: usize) -> Option<f64> {
        self.0.resources.get(number)?.end.map(|end| end as f64)
    }
}

/// Why a signature is refused.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Refusal(crate::Refusal);

#[wasm_bindgen]
impl Refusal {
    /// The code of the error.
    #[wasm_bindgen(getter)]
    pub fn code(&self) -> String {
        self.0.kind.code().to_owned()
    }

    /// What is wrong.
    #[wasm_bindgen(getter)]
    pub fn what(&self) -> String {
        self.0.what.clone()
    }

    /// What the user can do.
    #[wasm_bindgen(getter)]
    pub fn advice(&self) -> String {
        self.0.advice.to_owned()
    }

    /// Whether a key is trusted or given, but a certificate is needed, or the other way round.
    #[wasm_bindgen(getter, js_name = isOfTrust)]
    pub fn is_of_trust(&self) -> bool {
        matches!(self.0.kind, Kind::OtherTrust | Kind::OtherArgument)
    }
}
