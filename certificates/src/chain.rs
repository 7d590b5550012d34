//! A chain of certificates, from that of the signer up to a trusted root.
//!
//! As in model-signing, the chain must be valid at the time when the signer's certificate became valid: a bundle has no
//! proof of the time of signing, and models are used for longer than certificates live.

use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use std::fmt::{self, Display};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode, oid::ObjectIdentifier};
use x509_cert::ext::pkix::{ExtendedKeyUsage, KeyUsage as KeyUsageExtension};

/// `id-kp-codeSigning` of RFC 5280: as an OID, and as the content of its DER encoding.
const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
const CODE_SIGNING_CONTENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];

/// The maximum length of a chain. A chain has a root, one or two intermediates and the certificate of the signer.
const MAX_CHAIN: usize = 10;

/// Why certificates are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A root that the caller has passed cannot be used.
    Root(String),
    /// The chain of the signer is invalid, or does not lead to a root.
    Chain(String),
}

/// The certificates of roots that are trusted to name signers.
#[derive(Debug, Clone)]
pub struct Roots(Vec<Vec<u8>>);

impl Roots {
    /// Takes one or more certificates in DER.
    ///
    /// # Errors
    /// [`Error::Root`] if there is none, or if one is not a certificate.
    pub fn from_der(roots: Vec<Vec<u8>>) -> Result<Self, Error> {
        if roots.is_empty() {
            return Err(Error::Root("there is no root certificate".to_owned()));
        }
        for root in &roots {
            Certificate::from_der(root)
                .map_err(|error| Error::Root(format!("a root certificate cannot be read: {error}")))?;
            anchor_from_trusted_cert(&CertificateDer::from(root.as_slice()))
                .map_err(|error| Error::Root(format!("a root certificate cannot be used: {error}")))?;
        }
        Ok(Roots(roots))
    }

    /// Verifies a chain in DER, which starts with the certificate of the signer. Returns the signer's key, as a
    /// SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// [`Error::Chain`] if it is not valid, does not lead to one of the roots, or is not for signatures.
    pub fn verify(
        &self,
        chain: &[Vec<u8>],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<Vec<u8>, Error> {
        let Some((signer, issuers)) = chain.split_first().filter(|_| chain.len() <= MAX_CHAIN) else {
            return Err(Error::Chain(format!("the signature does not have 1 to {MAX_CHAIN} certificates")));
        };
        let certificate = Certificate::from_der(signer).map_err(|error| wrong("cannot be read", error))?;
        check_usage(&certificate)?;
        let time = certificate.tbs_certificate().validity().not_before.to_unix_duration();
        let roots: Vec<_> = self.0.iter().map(|root| CertificateDer::from(root.as_slice())).collect();
        let anchors: Vec<_> = roots.iter().filter_map(|root| anchor_from_trusted_cert(root).ok()).collect();
        let issuers: Vec<_> = issuers.iter().map(|issuer| CertificateDer::from(issuer.as_slice())).collect();
        let signer = CertificateDer::from(signer.as_slice());
        let signer = EndEntityCert::try_from(&signer).map_err(|error| wrong("cannot be read", error))?;
        let usage = KeyUsage::required_if_present(CODE_SIGNING_CONTENT);
        let time = UnixTime::since_unix_epoch(time);
        signer
            .verify_for_usage(algorithms, &anchors, &issuers, time, usage, None, None)
            .map_err(|error| wrong("is not issued by the given root", error))?;
        let key = certificate.tbs_certificate().subject_public_key_info().to_der();
        key.map_err(|error| wrong("cannot be read", error))
    }
}

/// The certificate must be for signatures: by its key usage, or by its extended key usage.
fn check_usage(certificate: &Certificate) -> Result<(), Error> {
    let certificate = certificate.tbs_certificate();
    let usage = certificate.get_extension::<KeyUsageExtension>().map_err(|error| wrong("cannot be read", error))?;
    let extended = certificate.get_extension::<ExtendedKeyUsage>().map_err(|error| wrong("cannot be read", error))?;
    let is_for_signatures = match (usage, extended) {
        (Some((_, usage)), _) if usage.digital_signature() => true,
        (_, Some((_, extended))) => extended.0.contains(&CODE_SIGNING),
        _ => false,
    };
    is_for_signatures.then_some(()).ok_or_else(|| {
        let what = "the certificate of the signer is not for signatures: it has neither `digitalSignature` nor \
                    `codeSigning`";
        Error::Chain(what.to_owned())
    })
}

fn wrong(what: &str, error: impl Display) -> Error {
    Error::Chain(format!("the certificate of the signer {what}: {error}"))
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Root(what) | Error::Chain(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for Error {}
