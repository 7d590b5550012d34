//! Files with keys and certificates in PEM.

use crate::error::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Finds the first block with one of these labels, and returns its label and the block. A file may have others before
/// it: OpenSSL writes the parameters of a curve before the key.
pub(super) fn block<'a>(text: &'a str, labels: &[&'static str]) -> Result<(&'static str, &'a str)> {
    let found = labels.iter().find_map(|label| {
        let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
        let (start, length) = (text.find(&begin)?, end.len());
        let rest = text.get(start..)?;
        Some((*label, rest.get(..rest.find(&end)? + length)?))
    });
    let is_encrypted = |block: &str| block.contains("Proc-Type: 4,ENCRYPTED");
    found.filter(|(_, block)| !is_encrypted(block)).ok_or_else(|| {
        let what = format!("there is no plain PEM block \"{}\"", labels.join("\" or \""));
        Error::new(ErrorKind::InvalidArgument, what).advise(advice(text))
    })
}

/// The bytes of a block, whose lines may have any length, as in pages.
pub(super) fn decode(block: &str) -> Result<Vec<u8>> {
    let content = block.split("-----").nth(2).unwrap_or_default();
    let base64: String = content.split_ascii_whitespace().collect();
    STANDARD.decode(base64).map_err(|error| {
        Error::new(ErrorKind::InvalidArgument, format!("a PEM block contains invalid base64: {error}"))
    })
}

fn advice(text: &str) -> &'static str {
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED") {
        "The key is encrypted. Decrypt it into a protected file first: openssl pkey -in key.pem -out plain.pem"
    } else if text.contains("PRIVATE KEY-----") {
        "This is a private key. Write its public key with: openssl pkey -in key.pem -pubout -out public.pem"
    } else if text.contains("PUBLIC KEY-----") {
        "This is a public key."
    } else if text.contains("-----BEGIN CERTIFICATE-----") {
        "This is a certificate."
    } else {
        "Create a key with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem"
    }
}
