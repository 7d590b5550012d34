//! Sigstore bundles: the envelope of a signature, and what it is verified with.

use crate::ecdsa::key_hint;
use crate::fields::{Fields, shortened};
use crate::refusal::{Kind, Refusal, SIGN_AGAIN, invalid, unsupported};
use crate::statement::{self, Statement};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The maximum length of a bundle. A bundle has about 200 bytes per file, and models have at most thousands of files.
pub const MAX_BUNDLE_BYTES: u64 = 64 << 20;

const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The start of the media types of all versions.
const ANY_MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle";

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A signature whose structure is acceptable, and whose ECDSA signature is yet to be verified.
#[derive(Debug)]
pub struct Bundle {
    signer: Signer,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// What a bundle says about its signer.
#[derive(Debug)]
enum Signer {
    /// A key, and its name, which may be empty.
    Key(String),
    /// Certificates in DER: that of the signer, then those that issued it.
    Certificates(Vec<Vec<u8>>),
}

impl Bundle {
    /// Parses a bundle.
    ///
    /// # Errors
    /// A [`Refusal`] of anything that model-signing does not verify with a key or with certificates.
    pub fn parse(bundle: &[u8]) -> Result<Self, Refusal> {
        if bundle.len() as u64 > MAX_BUNDLE_BYTES {
            let what = format!("the signature has more than {} MiB", MAX_BUNDLE_BYTES >> 20);
            let advice = "The signature is damaged or malicious. If it is neither, please report it.";
            return Err(Refusal { kind: Kind::TooLong, what, advice });
        }
        let bundle: Value =
            serde_json::from_slice(bundle).map_err(|error| not_a_bundle(&format!(" in JSON: {error}")))?;
        let Some(media_type) = bundle.get("mediaType").and_then(Value::as_str) else { return Err(not_a_bundle("")) };
        if media_type != MEDIA_TYPE {
            let media_type = shortened(media_type);
            return Err(match media_type.starts_with(ANY_MEDIA_TYPE) {
                true => {
                    unsupported(format!("the signature is a bundle of the other version \"{media_type}\""), SIGN_AGAIN)
                }
                false => not_a_bundle(&format!(", but \"{media_type}\"")),
            });
        }
        let names = ["mediaType", "verificationMaterial", "messageSignature", "dsseEnvelope"];
        let bundle = Fields::new("", &bundle)?.only(&names)?;
        let signer = signer(&bundle.object("verificationMaterial")?)?;
        if bundle.get("messageSignature").is_some() {
            return Err(invalid("the signature is over a message, not over an in-toto statement"));
        }
        let envelope = bundle.object("dsseEnvelope")?.only(&["payload", "payloadType", "signatures"])?;
        if envelope.text("payloadType")? != PAYLOAD_TYPE {
            return Err(invalid("the signature is not over an in-toto statement"));
        }
        // The specification of bundles requires exactly one, and model-signing writes one.
        let signatures = envelope.objects("signatures")?;
        let [signature] = signatures.as_slice() else {
            return Err(invalid("the bundle does not have exactly one signature"));
        };
        let signature = signature.clone().only(&["sig", "keyid"])?;
        signature.optional_text("keyid")?;
        Ok(Bundle { signer, payload: envelope.bytes("payload")?, signature: signature.bytes("sig")? })
    }

    /// Checks that the bundle was signed with a key, and that it names this key if it names one. `key` is a
    /// SubjectPublicKeyInfo in DER; `None` if its bytes cannot be accessed.
    ///
    /// # Errors
    /// A [`Refusal`] of bundles with certificates or with the name of another key.
    pub fn check_key(&self, key: Option<&[u8]>) -> Result<(), Refusal> {
        let Signer::Key(hint) = &self.signer else {
            let what = "the model is signed with a certificate, not with a key".to_owned();
            return Err(Refusal { kind: Kind::OtherTrust, what, advice: "Trust the certificate of the root instead." });
        };
        match key.map(key_hint).filter(|expected| !hint.is_empty() && expected != hint) {
            None => Ok(()),
            Some(_) => {
                let hint = shortened(hint);
                Err(invalid(format!("the model is signed with another key, whose SHA-256 is {hint}")))
            }
        }
    }

    /// The certificates in DER: that of the signer, then those that issued it.
    ///
    /// # Errors
    /// A [`Refusal`] of bundles that were signed with a key.
    pub fn certificates(&self) -> Result<&[Vec<u8>], Refusal> {
        let Signer::Certificates(certificates) = &self.signer else {
            let what = "the model is signed with a key, not with a certificate".to_owned();
            return Err(Refusal { kind: Kind::OtherTrust, what, advice: "Trust the public key instead." });
        };
        Ok(certificates)
    }

    /// The bytes that the key must have signed.
    pub fn message(&self) -> Vec<u8> {
        message_of(&self.payload)
    }

    /// The ECDSA signature in DER.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// What the signature states. `is_valid` is the result of verifying the signature of the message.
    ///
    /// # Errors
    /// A [`Refusal`] if the signature is not valid, or if the statement is not about a model or contradicts itself.
    pub fn statement(&self, is_valid: bool) -> Result<Statement, Refusal> {
        if is_valid {
            return Statement::parse(&self.payload);
        }
        // Versions before 1.0 signed other bytes.
        statement::refuse_old(&self.payload)?;
        Err(invalid("the signature was not made by this key, or the signed statement was changed"))
    }
}

/// The bytes to sign for a payload, as DSSE version 1 defines them.
pub fn message_of(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// A bundle in JSON: a payload, the signature of its message in DER, and the key, a SubjectPublicKeyInfo in DER.
pub fn envelope(payload: &[u8], signature: &[u8], key: &[u8]) -> String {
    let bundle = json!({
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": { "publicKey": { "hint": key_hint(key) }, "tlogEntries": [] },
        "dsseEnvelope": {
            "payload": STANDARD.encode(payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{ "sig": STANDARD.encode(signature), "keyid": "" }],
        },
    });
    bundle.to_string()
}

fn signer(material: &Fields<'_>) -> Result<Signer, Refusal> {
    let names = ["publicKey", "x509CertificateChain", "certificate", "tlogEntries", "timestampVerificationData"];
    let material = material.clone().only(&names)?;
    let has_log = material.has("tlogEntries") && !material.list("tlogEntries")?.is_empty();
    if has_log || material.get("certificate").is_some() {
        // Its certificates live for minutes: they need a log, its keys, and identities.
        let what = "the model is signed in Sigstore's keyless mode, which is not supported";
        return Err(unsupported(what, "Verify it with model-signing, or sign the model with a key or a certificate."));
    }
    if let Some(times) = material.optional_object("timestampVerificationData")? {
        times.only(&["rfc3161Timestamps"])?;
    }
    match (material.optional_object("publicKey")?, material.optional_object("x509CertificateChain")?) {
        (Some(key), None) => {
            // Versions before 1.0 wrote the key itself, which says no more than its name.
            let key = key.only(&["hint", "rawBytes", "keyDetails"])?;
            Ok(Signer::Key(key.optional_text("hint")?.unwrap_or_default().to_owned()))
        }
        (None, Some(chain)) => {
            let certificates = chain.only(&["certificates"])?.objects("certificates")?;
            let bytes = certificates.into_iter().map(|certificate| certificate.only(&["rawBytes"])?.bytes("rawBytes"));
            Ok(Signer::Certificates(bytes.collect::<Result<_, _>>()?))
        }
        _ => Err(invalid("the signature does not have either a public key or certificates")),
    }
}

fn not_a_bundle(detail: &str) -> Refusal {
    Refusal { advice: SIGN_AGAIN, ..invalid(format!("the signature is not a Sigstore bundle{detail}")) }
}
