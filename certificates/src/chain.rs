//! A chain of certificates, from that of the signer up to a trusted root.
//!
//! As in model-signing, the chain must be valid at the time when the signer's certificate became valid: a bundle has no
//! proof of the time of signing, and models are used for longer than certificates live. This holds for all certificates
//! of the chain, including the root.

use crate::issuers;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use std::cell::RefCell;
use std::fmt::{self, Display};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, VerifiedPath, anchor_from_trusted_cert};
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

/// The certificates of roots that are trusted to name signers, and of others that may be on a path to them.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Those that name themselves as their issuers, each in DER with its content.
    roots: Vec<(Vec<u8>, Certificate)>,
    /// All others, in DER. As with OpenSSL, a path does not end at one of them.
    others: Vec<Vec<u8>>,
}

impl Roots {
    /// Takes one or more certificates in DER.
    ///
    /// # Errors
    /// [`Error::Root`] if there is none, if one is not a certificate, or if none is that of a root.
    pub fn from_der(roots: Vec<Vec<u8>>) -> Result<Self, Error> {
        let (mut found, mut others) = (Vec::new(), Vec::new());
        if roots.is_empty() {
            return Err(Error::Root("there is no root certificate".to_owned()));
        }
        for der in roots {
            let certificate = Certificate::from_der(&der)
                .map_err(|error| Error::Root(format!("a root certificate cannot be read: {error}")))?;
            anchor_from_trusted_cert(&CertificateDer::from(der.as_slice()))
                .map_err(|error| Error::Root(format!("a root certificate cannot be used: {error}")))?;
            match issuers::is_self_issued(&certificate) {
                true => found.push((der, certificate)),
                false => others.push(der),
            }
        }
        if found.is_empty() {
            let what = "none of the certificates is that of a root, which is its own issuer";
            return Err(Error::Root(what.to_owned()));
        }
        Ok(Roots { roots: found, others })
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
        issuers::check_validity(&certificate, time).map_err(|what| Error::Chain(format!("{SIGNERS} {what}")))?;
        if self.roots.iter().any(|(root, _)| root == signer) {
            // It is trusted itself, as with OpenSSL.
            issuers::check_extensions(&certificate).map_err(|what| Error::Chain(format!("{SIGNERS} {what}")))?;
        } else {
            self.verify_path(signer, issuers, time, algorithms)?;
        }
        let key = certificate.tbs_certificate().subject_public_key_info().to_der();
        key.map_err(|error| wrong("cannot be read", error))
    }

    /// Searches a valid path from a signer to a root.
    fn verify_path(
        &self,
        signer: &[u8],
        issuers: &[Vec<u8>],
        time: Duration,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), Error> {
        let roots: Vec<_> = self.roots.iter().map(|(root, _)| CertificateDer::from(root.as_slice())).collect();
        let anchors = roots.iter().map(anchor_from_trusted_cert).collect::<Result<Vec<_>, _>>();
        let anchors = anchors.map_err(|error| wrong("is not issued by the given root", error))?;
        let issuers = issuers.iter().chain(&self.others);
        let issuers: Vec<_> = issuers.map(|issuer| CertificateDer::from(issuer.as_slice())).collect();
        let signer = CertificateDer::from(signer);
        let signer = EndEntityCert::try_from(&signer).map_err(|error| wrong("cannot be read", error))?;
        let usage = KeyUsage::required_if_present(CODE_SIGNING_CONTENT);
        let refusal = RefCell::new(None);
        let check = |path: &VerifiedPath<'_>| {
            self.check_path(path, &anchors, time).map_err(|what| {
                refusal.replace(Some(what));
                webpki::Error::UnknownIssuer
            })
        };
        let unix_time = UnixTime::since_unix_epoch(time);
        let outcome =
            signer.verify_for_usage(algorithms, &anchors, &issuers, unix_time, usage, None, Some(&check)).map(drop);
        outcome.map_err(|error| match refusal.take() {
            Some(what) => wrong("is not issued by the given root", what),
            None => wrong("is not issued by the given root", error),
        })
    }

    /// Checks the issuers on a path whose signatures are valid. Several roots may have the same name and key.
    fn check_path(&self, path: &VerifiedPath<'_>, anchors: &[TrustAnchor<'_>], time: Duration) -> Result<(), String> {
        let issuers = path.intermediate_certificates().map(|issuer| Certificate::from_der(&issuer.der()));
        let issuers: Vec<_> = issuers.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let mut outcome = Err("there is no such root".to_owned());
        let roots = self.roots.iter().zip(anchors).filter(|(_, anchor)| *anchor == path.anchor());
        for ((_, root), _) in roots {
            outcome = issuers::check(issuers.iter().chain([root]), time);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
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
    Error::Chain(format!("{SIGNERS} {what}: {error}"))
}

const SIGNERS: &str = "the certificate of the signer";

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Root(what) | Error::Chain(what)) = self;
        f.write_str(what)
    }
}

impl std::error::Error for Error {}
