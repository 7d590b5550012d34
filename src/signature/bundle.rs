//! Sigstore bundles: the envelope of a signature, and what it is verified with.

use super::statement::{list, text};
use super::{PrivateKey, PublicKey, Roots, Statement, invalid};
use crate::error::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The maximum length of a bundle. A bundle has about 200 bytes per file, and models have at most thousands of files.
pub const MAX_BUNDLE_BYTES: u64 = 64 << 20;

const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

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
    if bundle.len() as u64 > MAX_BUNDLE_BYTES {
        let what = format!("the signature has more than {} MiB", MAX_BUNDLE_BYTES >> 20);
        return Err(Error::new(ErrorKind::Limit, what));
    }
    let bundle: Value = serde_json::from_slice(bundle).map_err(|error| {
        let error = invalid(format!("the signature is not a Sigstore bundle in JSON: {error}"));
        error.advise("Sign the model with `weightstream sign` or model-signing.")
    })?;
    let media_type = text(&bundle, "/mediaType")?;
    if media_type != MEDIA_TYPE {
        return Err(Error::new(ErrorKind::Unsupported, format!("the signature is of type \"{media_type}\"")));
    }
    refuse_keyless(&bundle)?;
    let key = match trust {
        Trust::Key(key) => {
            check_hint(&bundle, key)?;
            key.clone()
        }
        Trust::Certificates(roots) => roots.verify(&certificates(&bundle)?)?,
    };
    if text(&bundle, "/dsseEnvelope/payloadType")? != PAYLOAD_TYPE {
        return Err(invalid("the signature is not over an in-toto statement"));
    }
    let payload = decode(text(&bundle, "/dsseEnvelope/payload")?)?;
    // model-signing reads and writes exactly one.
    let [signature] = list(&bundle, "/dsseEnvelope/signatures")? else {
        return Err(invalid("the bundle does not have exactly one signature"));
    };
    key.verify(&pre_authentication_encoding(&payload), &decode(text(signature, "/sig")?)?)?;
    Statement::parse(&payload)
}

/// Signs a statement. Returns the bundle in JSON.
pub(super) fn sign(statement: &Statement, key: &PrivateKey) -> Result<String> {
    let payload = statement.payload();
    let signature = key.sign(&pre_authentication_encoding(payload.as_bytes()))?;
    let bundle = json!({
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": { "publicKey": { "hint": key.public_key().hint() }, "tlogEntries": [] },
        "dsseEnvelope": {
            "payload": STANDARD.encode(payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{ "sig": STANDARD.encode(signature), "keyid": "" }],
        },
    });
    Ok(bundle.to_string())
}

/// The bytes that are signed, as DSSE version 1 defines them.
fn pre_authentication_encoding(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Refuses the keyless mode of Sigstore. Its certificates live for minutes: they need a log, its keys, and identities.
fn refuse_keyless(bundle: &Value) -> Result<()> {
    let material = bundle.pointer("/verificationMaterial");
    let has_log =
        material.and_then(|material| material.get("tlogEntries")?.as_array()).is_some_and(|log| !log.is_empty());
    if has_log || material.is_some_and(|material| material.get("certificate").is_some()) {
        let what = "the model is signed in Sigstore's keyless mode, which is not supported";
        let error = Error::new(ErrorKind::Unsupported, what);
        return Err(error.advise("Verify it with `model_signing verify sigstore`, or sign the model with a key."));
    }
    Ok(())
}

/// A bundle may name its key. Comparing the names gives a better message than a signature that does not match.
fn check_hint(bundle: &Value, key: &PublicKey) -> Result<()> {
    let material = bundle.pointer("/verificationMaterial");
    if material.is_some_and(|material| material.get("x509CertificateChain").is_some()) {
        let error = invalid("the model is signed with a certificate, not with a key");
        return Err(error.advise("Pass the certificate of the root instead of a public key."));
    }
    match bundle.pointer("/verificationMaterial/publicKey/hint").and_then(Value::as_str) {
        Some(hint) if !hint.is_empty() && hint != key.hint() => {
            Err(invalid(format!("the model is signed with another key, whose SHA-256 is {hint}")))
        }
        _ => Ok(()),
    }
}

/// The certificates of a bundle in DER: that of the signer, then those that issued it.
fn certificates(bundle: &Value) -> Result<Vec<Vec<u8>>> {
    if bundle.pointer("/verificationMaterial/publicKey").is_some() {
        let error = invalid("the model is signed with a key, not with a certificate");
        return Err(error.advise("Pass the public key instead of the certificate of a root."));
    }
    let chain = list(bundle, "/verificationMaterial/x509CertificateChain/certificates")?;
    chain.iter().map(|certificate| decode(text(certificate, "/rawBytes")?)).collect()
}

fn decode(text: &str) -> Result<Vec<u8>> {
    STANDARD.decode(text).map_err(|error| invalid(format!("the signature contains invalid base64: {error}")))
}
