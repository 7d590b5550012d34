//! Certificates of signers: a chain up to a root that the caller trusts.
//!
//! `rustls-webpki` verifies the chain: signatures, validity, CA flags, path lengths, name constraints. As in
//! model-signing, the chain must be valid at the time when the signer's certificate became valid: a bundle has no proof
//! of the time of signing, and models are used for longer than certificates live.

use super::{PublicKey, invalid, pem};
use crate::error::{Error, ErrorKind, Result};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::fmt::Display;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_cert::Certificate;
use x509_cert::der::{Decode, DecodePem, Encode, oid::ObjectIdentifier};
use x509_cert::ext::pkix::{ExtendedKeyUsage, KeyUsage as KeyUsageExtension};

/// `id-kp-codeSigning` of RFC 5280: as an OID, and as the content of its DER encoding.
const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
const CODE_SIGNING_CONTENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];

/// The maximum length of a chain. A chain has a root, one or two intermediates and the certificate of the signer.
const MAX_CHAIN: usize = 10;

/// The certificates of roots that are trusted to name signers.
#[derive(Debug)]
pub struct Roots(Vec<Vec<u8>>);

impl Roots {
    /// Parses one or more certificates in PEM.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if there is none, or if one is not a certificate.
    pub fn from_pem(text: &str) -> Result<Self> {
        let (mut roots, mut rest) = (Vec::new(), text);
        while let Ok((_, block)) = pem::block(rest, &["CERTIFICATE"]) {
            let certificate = Certificate::from_pem(block).and_then(|certificate| certificate.to_der());
            roots.push(certificate.map_err(|error| {
                Error::new(ErrorKind::InvalidArgument, format!("a certificate cannot be read: {error}"))
            })?);
            let at = rest.find(block).map(|start| start + block.len());
            rest = at.and_then(|at| rest.get(at..)).unwrap_or_default();
        }
        match roots.is_empty() {
            true => pem::block(text, &["CERTIFICATE"]).map(|_| Roots(roots)),
            false => Ok(Roots(roots)),
        }
    }

    /// Verifies a chain that starts with the certificate of the signer. Returns the signer's key.
    pub(super) fn verify(&self, chain: &[Vec<u8>]) -> Result<PublicKey> {
        let Some((signer, issuers)) = chain.split_first().filter(|_| chain.len() <= MAX_CHAIN) else {
            return Err(invalid(format!("the signature does not have 1 to {MAX_CHAIN} certificates")));
        };
        let certificate = Certificate::from_der(signer).map_err(|error| wrong("cannot be read", error))?;
        check_usage(&certificate)?;
        let time = certificate.tbs_certificate().validity().not_before.to_unix_duration();
        let roots: Vec<_> = self.0.iter().map(|root| CertificateDer::from(root.as_slice())).collect();
        let anchors: Vec<_> =
            roots.iter().map(anchor_from_trusted_cert).collect::<Result<_, _>>().map_err(|error| {
                Error::new(ErrorKind::InvalidArgument, format!("a root certificate cannot be used: {error}"))
            })?;
        let issuers: Vec<_> = issuers.iter().map(|issuer| CertificateDer::from(issuer.as_slice())).collect();
        let signer = CertificateDer::from(signer.as_slice());
        let signer = EndEntityCert::try_from(&signer).map_err(|error| wrong("cannot be read", error))?;
        let usage = KeyUsage::required_if_present(CODE_SIGNING_CONTENT);
        let time = UnixTime::since_unix_epoch(time);
        signer
            .verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &anchors, &issuers, time, usage, None, None)
            .map_err(|error| wrong("is not issued by the given root", error))?;
        let key = certificate.tbs_certificate().subject_public_key_info().to_der();
        PublicKey::from_der(&key.map_err(|error| wrong("cannot be read", error))?)
    }
}

/// The certificate must be for signatures: by its key usage, or by its extended key usage.
fn check_usage(certificate: &Certificate) -> Result<()> {
    let certificate = certificate.tbs_certificate();
    let usage = certificate.get_extension::<KeyUsageExtension>().map_err(|error| wrong("cannot be read", error))?;
    let extended = certificate.get_extension::<ExtendedKeyUsage>().map_err(|error| wrong("cannot be read", error))?;
    let is_for_signatures = match (usage, extended) {
        (Some((_, usage)), _) if usage.digital_signature() => true,
        (_, Some((_, extended))) => extended.0.contains(&CODE_SIGNING),
        _ => false,
    };
    is_for_signatures.then_some(()).ok_or_else(|| {
        invalid(
            "the certificate of the signer is not for signatures: it has neither `digitalSignature` nor `codeSigning`",
        )
    })
}

fn wrong(what: &str, error: impl Display) -> Error {
    invalid(format!("the certificate of the signer {what}: {error}"))
}
