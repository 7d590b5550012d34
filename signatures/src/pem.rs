//! Keys and certificates in PEM (RFC 7468).

use crate::refusal::{Kind, Refusal};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const PUBLIC_KEY: &str = "PUBLIC KEY";
const CERTIFICATE: &str = "CERTIFICATE";

/// The SubjectPublicKeyInfo of the first public key in a text.
///
/// # Errors
/// [`Kind::Argument`], or [`Kind::OtherArgument`] for a certificate.
pub fn public_key(text: &str) -> Result<Vec<u8>, Refusal> {
    block(text, &[PUBLIC_KEY]).and_then(|(_, block)| decode(block)).map_err(|refusal| {
        let advice = "Trust the certificate of a root as such, not as a key.";
        of_other_kind(text, CERTIFICATE, "this is a certificate", advice).unwrap_or(refusal)
    })
}

/// All certificates in a text, in DER.
///
/// # Errors
/// [`Kind::Argument`], or [`Kind::OtherArgument`] for a public key.
pub fn certificates(text: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    block(text, &[CERTIFICATE]).map_err(|refusal| {
        let advice = "Trust the key of the signer as such, not as a certificate.";
        of_other_kind(text, PUBLIC_KEY, "this is a public key", advice).unwrap_or(refusal)
    })?;
    let (mut found, mut rest) = (Vec::new(), text);
    while let Ok((_, block)) = block(rest, &[CERTIFICATE]) {
        found.push(decode(block)?);
        rest = rest.split_once(block).map_or("", |(_, rest)| rest);
    }
    match rest.contains(&begin(CERTIFICATE)) {
        true => Err(argument("a certificate in PEM has no end", "Copy the whole file.")),
        false => Ok(found),
    }
}

/// Finds the first block with one of these labels, and returns its label and the block. A text may have others before
/// it: OpenSSL writes the parameters of a curve before the key.
///
/// # Errors
/// [`Kind::Argument`].
pub fn block<'a>(text: &'a str, labels: &[&'static str]) -> Result<(&'static str, &'a str), Refusal> {
    let found = labels.iter().find_map(|label| {
        let end = format!("-----END {label}-----");
        let rest = text.get(text.find(&begin(label))?..)?;
        Some((*label, rest.get(..rest.find(&end)? + end.len())?))
    });
    found.filter(|(_, block)| !block.contains(ENCRYPTED)).ok_or_else(|| {
        let what = format!("there is no plain PEM block \"{}\"", labels.join("\" or \""));
        argument(what, advice(text))
    })
}

/// A header of an encrypted key in the older form.
const ENCRYPTED: &str = "Proc-Type: 4,ENCRYPTED";

fn begin(label: &str) -> String {
    format!("-----BEGIN {label}-----")
}

/// The bytes of a block, whose lines may have any length, as in pages.
fn decode(block: &str) -> Result<Vec<u8>, Refusal> {
    let content = block.split("-----").nth(2).unwrap_or_default();
    let base64: String = content.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(base64).ok().filter(|bytes| !bytes.is_empty());
    bytes.ok_or_else(|| argument("a PEM block contains invalid base64", "Copy the whole file."))
}

/// The refusal of a text that has a block of another kind instead.
fn of_other_kind(text: &str, label: &str, what: &str, advice: &'static str) -> Option<Refusal> {
    let kind = Kind::OtherArgument;
    text.contains(&begin(label)).then(|| Refusal { kind, what: what.to_owned(), advice })
}

fn argument(what: impl Into<String>, advice: &'static str) -> Refusal {
    Refusal { kind: Kind::Argument, what: what.into(), advice }
}

fn advice(text: &str) -> &'static str {
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains(ENCRYPTED) {
        "The key is encrypted. Decrypt it into a protected file first: openssl pkey -in key.pem -out plain.pem"
    } else if text.contains("PRIVATE KEY-----") {
        "This is a private key. Write its public key with: openssl pkey -in key.pem -pubout -out public.pem"
    } else if text.contains("PUBLIC KEY-----") {
        "This is a public key."
    } else if text.contains(&begin(CERTIFICATE)) {
        "This is a certificate."
    } else {
        "Create a key with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem"
    }
}
