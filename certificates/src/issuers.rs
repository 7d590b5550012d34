//! The issuers of a signer: which certificates may issue others.
//!
//! `rustls-webpki` trusts the roots as they are, and ignores the key usage of issuers. OpenSSL, which model-signing
//! uses, checks roots like all other issuers.

use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::certificate::Version;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};

/// The extensions that OpenSSL knows, of those that may be critical: basic constraints, key usage, names, policies and
/// extended key usage.
const KNOWN_EXTENSIONS: [&str; 10] = [
    "2.5.29.15",
    "2.5.29.17",
    "2.5.29.19",
    "2.5.29.30",
    "2.5.29.31",
    "2.5.29.32",
    "2.5.29.33",
    "2.5.29.36",
    "2.5.29.37",
    "2.5.29.54",
];

/// Checks the issuers on a path from the signer up to its root.
///
/// # Errors
/// What is wrong with one of them.
pub(crate) fn check<'a>(issuers: impl Iterator<Item = &'a Certificate>, time: Duration) -> Result<(), String> {
    let mut issuers = issuers.peekable();
    // The number of certificates between the signer and this issuer that are not self-issued, as RFC 5280 counts them.
    let mut below = 0;
    while let Some(issuer) = issuers.next() {
        let which = if issuers.peek().is_some() { "an intermediate certificate" } else { "the root certificate" };
        check_issuer(issuer, below, time).map_err(|what| format!("{which} {what}"))?;
        below += usize::from(!is_self_issued(issuer));
    }
    Ok(())
}

fn check_issuer(issuer: &Certificate, below: usize, time: Duration) -> Result<(), &'static str> {
    check_validity(issuer, time)?;
    check_extensions(issuer)?;
    let constraints = constraints(issuer)?;
    check_authority(issuer, constraints.as_ref())?;
    match constraints.and_then(|constraints| constraints.path_len_constraint) {
        Some(length) if below > usize::from(length) => Err("does not allow a path of this length"),
        _ => Ok(()),
    }
}

/// Checks that a certificate is valid at a time.
pub(crate) fn check_validity(certificate: &Certificate, time: Duration) -> Result<(), &'static str> {
    let validity = certificate.tbs_certificate().validity();
    if time < validity.not_before.to_unix_duration() {
        return Err("was not yet valid when that of the signer became valid");
    }
    if time > validity.not_after.to_unix_duration() {
        return Err("had expired when that of the signer became valid");
    }
    Ok(())
}

/// Refuses critical extensions that are not known, because they may restrict the certificate.
pub(crate) fn check_extensions(certificate: &Certificate) -> Result<(), &'static str> {
    let known = KNOWN_EXTENSIONS.map(ObjectIdentifier::new_unwrap);
    let mut extensions = certificate.tbs_certificate().extensions().into_iter().flatten();
    match extensions.any(|extension| extension.critical && !known.contains(&extension.extn_id)) {
        true => Err("has a critical extension that is not known"),
        false => Ok(()),
    }
}

/// Whether a certificate names itself as its issuer, as roots do.
pub(crate) fn is_self_issued(certificate: &Certificate) -> bool {
    let certificate = certificate.tbs_certificate();
    certificate.subject() == certificate.issuer()
}

fn constraints(certificate: &Certificate) -> Result<Option<BasicConstraints>, &'static str> {
    let found = certificate.tbs_certificate().get_extension::<BasicConstraints>();
    found
        .map(|found| found.map(|(_, constraints)| constraints))
        .map_err(|_| "has basic constraints that cannot be read")
}

/// A certificate without basic constraints is that of a CA if its key may sign certificates, or if it is a root of
/// X.509 version 1.
fn check_authority(certificate: &Certificate, constraints: Option<&BasicConstraints>) -> Result<(), &'static str> {
    let content = certificate.tbs_certificate();
    let usage = content.get_extension::<KeyUsage>().map_err(|_| "has a key usage that cannot be read")?;
    let usage = usage.map(|(_, usage)| usage);
    if usage.as_ref().is_some_and(|usage| !usage.key_cert_sign()) {
        return Err("is not for signing certificates: its key usage lacks `keyCertSign`");
    }
    let is_old_root = content.version() == Version::V1 && is_self_issued(certificate);
    match constraints.map_or(usage.is_some() || is_old_root, |constraints| constraints.ca) {
        true => Ok(()),
        false => Err("is not that of a CA"),
    }
}
