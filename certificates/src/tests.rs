//! The same chains are verified with ring, and with recorded signatures that ring verifies afterwards.

use super::*;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::elliptic_curve::Generate;
use p256::pkcs8::EncodePublicKey;
use proptest::prelude::*;
use rustls_pki_types::SignatureVerificationAlgorithm;
use std::str::FromStr;
use std::sync::LazyLock;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder, CertificateBuilder, Result as Built};
use x509_cert::der::asn1::UtcTime;
use x509_cert::der::{DateTime, Decode, Encode, oid::ObjectIdentifier};
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time, Validity};
use x509_cert::{Certificate, TbsCertificate};

const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");

/// The maximum number of rounds that a test waits for.
const MAX_ROUNDS: usize = 20;

/// What a certificate says.
#[derive(Clone)]
struct Profile {
    name: &'static str,
    issuer: &'static str,
    is_ca: bool,
    path_length: Option<u8>,
    usage: Option<KeyUsages>,
    is_for_code: bool,
    /// The years in which it becomes valid and invalid.
    years: [u16; 2],
}

const CA: Profile = Profile {
    name: "root",
    issuer: "root",
    is_ca: true,
    path_length: None,
    usage: Some(KeyUsages::KeyCertSign),
    is_for_code: false,
    years: [2020, 2045],
};

const MIDDLE: Profile = Profile { name: "middle", ..CA };

/// It has expired.
const SIGNER: Profile = Profile {
    name: "signer",
    issuer: "middle",
    is_ca: false,
    usage: Some(KeyUsages::DigitalSignature),
    years: [2021, 2022],
    ..CA
};

impl BuilderProfile for Profile {
    fn get_issuer(&self, _: &Name) -> Name {
        name(self.issuer)
    }

    fn get_subject(&self) -> Name {
        name(self.name)
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        tbs: &TbsCertificate,
    ) -> Built<Vec<Extension>> {
        let mut list: Vec<Extension> = Vec::new();
        let constraints = BasicConstraints { ca: self.is_ca, path_len_constraint: self.path_length };
        list.push(constraints.to_extension(tbs.subject(), &list).unwrap());
        if let Some(usage) = self.usage {
            list.push(KeyUsage(usage.into()).to_extension(tbs.subject(), &list).unwrap());
        }
        if self.is_for_code {
            list.push(ExtendedKeyUsage(vec![CODE_SIGNING]).to_extension(tbs.subject(), &list).unwrap());
        }
        Ok(list)
    }
}

fn name(common: &str) -> Name {
    Name::from_str(&format!("CN={common}")).unwrap()
}

fn year(year: u16) -> Time {
    Time::UtcTime(UtcTime::from_date_time(DateTime::new(year, 1, 1, 0, 0, 0).unwrap()).unwrap())
}

/// A certificate in DER.
fn issue(profile: &Profile, key: &SigningKey, issuer: &SigningKey) -> Vec<u8> {
    let validity = Validity::new(year(profile.years[0]), year(profile.years[1]));
    let der = key.verifying_key().to_public_key_der().unwrap();
    let info = SubjectPublicKeyInfoOwned::from_der(der.as_bytes()).unwrap();
    let builder = CertificateBuilder::new(profile.clone(), SerialNumber::from(1u32), validity, info).unwrap();
    builder.build::<_, DerSignature>(issuer).unwrap().to_der().unwrap()
}

fn key() -> SigningKey {
    SigningKey::generate()
}

/// The keys of a chain: root, intermediate, signer.
struct Keys([SigningKey; 3]);

impl Keys {
    fn new() -> Self {
        Keys([key(), key(), key()])
    }

    fn root(&self) -> Vec<u8> {
        self.root_with(&CA)
    }

    fn root_with(&self, profile: &Profile) -> Vec<u8> {
        issue(profile, &self.0[0], &self.0[0])
    }

    fn middle(&self, profile: &Profile) -> Vec<u8> {
        issue(profile, &self.0[1], &self.0[0])
    }

    fn signer(&self, profile: &Profile) -> Vec<u8> {
        issue(profile, &self.0[2], &self.0[1])
    }
}

/// The identifiers of the keys and of the signatures of an algorithm.
fn ids(algorithm: &dyn SignatureVerificationAlgorithm) -> [Vec<u8>; 2] {
    [algorithm.public_key_alg_id().as_ref().to_vec(), algorithm.signature_alg_id().as_ref().to_vec()]
}

/// What ring says about a recorded signature.
fn is_valid(check: &SignatureCheck) -> bool {
    let found = recorded::identified().into_iter().find(|(algorithm, _)| *algorithm == check.algorithm);
    let (_, expected) = found.unwrap();
    let mut all = webpki::ALL_VERIFICATION_ALGS.iter();
    let algorithm = all.find(|algorithm| ids(**algorithm) == expected).unwrap();
    let info = SubjectPublicKeyInfoOwned::from_der(&check.key).unwrap();
    let key = info.subject_public_key.as_bytes().unwrap();
    algorithm.verify_signature(key, &check.message, &check.signature).is_ok()
}

/// Verifies a chain in rounds, and returns the result with the number of rounds.
fn in_rounds(roots: &Roots, chain: &[Vec<u8>]) -> (Result<Vec<u8>, Error>, usize) {
    let recorded = RecordedSignatures::new();
    for round in 1..MAX_ROUNDS {
        if let Some(outcome) = recorded.verify(roots, chain) {
            return (outcome, round);
        }
        while let Some((number, check)) = recorded.unverified() {
            recorded.set(number, is_valid(&check));
        }
    }
    panic!("more than {MAX_ROUNDS} rounds");
}

/// The result of both ways, which must be the same.
#[track_caller]
fn verify(root: Vec<u8>, chain: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let roots = Roots::from_der(vec![root]).unwrap();
    let directly = roots.verify(chain, webpki::ALL_VERIFICATION_ALGS);
    let (recorded, _) = in_rounds(&roots, chain);
    assert_eq!(recorded, directly);
    directly
}

#[track_caller]
fn refused(root: Vec<u8>, chain: &[Vec<u8>], expected: &str) {
    let error = verify(root, chain).unwrap_err();
    assert!(matches!(&error, Error::Chain(what) if what.contains(expected)), "{error}");
}

#[test]
fn returns_the_key_of_the_signer_also_after_its_certificate_has_expired() {
    let keys = Keys::new();
    let signer = keys.0[2].verifying_key().to_public_key_der().unwrap().to_vec();
    assert_eq!(verify(keys.root(), &[keys.signer(&SIGNER), keys.middle(&MIDDLE)]), Ok(signer.clone()));
    let for_code = Profile { usage: None, is_for_code: true, ..SIGNER };
    assert_eq!(verify(keys.root(), &[keys.signer(&for_code), keys.middle(&MIDDLE)]), Ok(signer));
}

#[test]
fn finds_the_issuers_in_any_order() {
    let (keys, lower) = (Keys::new(), key());
    let lower_ca = issue(&Profile { name: "lower", issuer: "middle", ..CA }, &lower, &keys.0[1]);
    let signer = issue(&Profile { issuer: "lower", ..SIGNER }, &keys.0[2], &lower);
    for issuers in [[&keys.middle(&MIDDLE), &lower_ca], [&lower_ca, &keys.middle(&MIDDLE)]] {
        verify(keys.root(), &[signer.clone(), issuers[0].clone(), issuers[1].clone()]).unwrap();
    }
    verify(keys.root(), &[signer, keys.root(), lower_ca, keys.middle(&MIDDLE)]).unwrap();
}

#[test]
fn refuses_chains_that_do_not_lead_to_the_root() {
    let (keys, other) = (Keys::new(), Keys::new());
    let chain = [keys.signer(&SIGNER), keys.middle(&MIDDLE)];
    refused(other.root(), &chain, "InvalidSignatureForPublicKey");
    refused(issue(&Profile { name: "other", issuer: "other", ..CA }, &key(), &key()), &chain, "UnknownIssuer");
    refused(keys.root(), &chain[..1], "UnknownIssuer");
    refused(keys.root(), &[], "does not have 1 to 10 certificates");
    refused(keys.root(), &vec![chain[0].clone(); 11], "does not have 1 to 10 certificates");
    refused(keys.root(), &[vec![0x30, 0], keys.middle(&MIDDLE)], "cannot be read");
}

#[test]
fn refuses_certificates_for_other_purposes() {
    let keys = Keys::new();
    let none = Profile { usage: None, ..SIGNER };
    refused(keys.root(), &[keys.signer(&none), keys.middle(&MIDDLE)], "neither `digitalSignature` nor");
    let no_ca = Profile { is_ca: false, ..MIDDLE };
    refused(keys.root(), &[keys.signer(&SIGNER), keys.middle(&no_ca)], "EndEntityUsedAsCa");
    let early = Profile { years: [2022, 2040], ..MIDDLE };
    refused(keys.root(), &[keys.signer(&SIGNER), keys.middle(&early)], "CertNotValidYet");
    let late = Profile { years: [2015, 2020], ..MIDDLE };
    refused(keys.root(), &[keys.signer(&SIGNER), keys.middle(&late)], "CertExpired");
}

/// OpenSSL, which model-signing uses, checks roots like all other issuers.
#[test]
fn checks_roots_like_other_issuers() {
    let keys = Keys::new();
    let chain = [keys.signer(&SIGNER), keys.middle(&MIDDLE)];
    for (root, part) in [
        (Profile { years: [2015, 2020], ..CA }, "the root certificate had expired"),
        (Profile { years: [2022, 2045], ..CA }, "was not yet valid"),
        (Profile { is_ca: false, ..CA }, "is not that of a CA"),
        (Profile { usage: Some(KeyUsages::DigitalSignature), ..CA }, "lacks `keyCertSign`"),
        (Profile { path_length: Some(0), ..CA }, "does not allow a path of this length"),
    ] {
        refused(keys.root_with(&root), &chain, part);
    }
    // The last one expires at the moment when the signer's certificate becomes valid.
    for root in
        [Profile { path_length: Some(1), ..CA }, Profile { usage: None, ..CA }, Profile { years: [2015, 2021], ..CA }]
    {
        verify(keys.root_with(&root), &chain).unwrap();
    }
    let direct = issue(&Profile { issuer: "root", ..SIGNER }, &keys.0[2], &keys.0[0]);
    verify(keys.root_with(&Profile { path_length: Some(0), ..CA }), &[direct]).unwrap();
}

#[test]
fn refuses_issuers_that_must_not_sign_certificates() {
    let keys = Keys::new();
    let middle = Profile { usage: Some(KeyUsages::DigitalSignature), ..MIDDLE };
    refused(
        keys.root(),
        &[keys.signer(&SIGNER), keys.middle(&middle)],
        "an intermediate certificate is not for signing certificates",
    );
    // The end entity of one chain as the issuer of another.
    let end_entity = keys.middle(&Profile { name: "middle", issuer: "root", ..SIGNER });
    refused(keys.root(), &[keys.signer(&SIGNER), end_entity], "EndEntityUsedAsCa");
}

#[test]
fn a_path_ends_at_a_root() {
    let keys = Keys::new();
    let (signer, middle) = (keys.signer(&SIGNER), keys.middle(&MIDDLE));
    let only_middle = Roots::from_der(vec![middle.clone()]).unwrap_err();
    assert!(matches!(&only_middle, Error::Root(what) if what.contains("is that of a root")), "{only_middle}");
    // Beside the root, an intermediate one completes the chain, and is checked.
    let verify = |roots: Vec<Vec<u8>>| {
        Roots::from_der(roots).unwrap().verify(std::slice::from_ref(&signer), webpki::ALL_VERIFICATION_ALGS)
    };
    verify(vec![middle, keys.root()]).unwrap();
    let middle = keys.middle(&Profile { usage: Some(KeyUsages::DigitalSignature), ..MIDDLE });
    assert!(verify(vec![keys.root(), middle]).unwrap_err().to_string().contains("keyCertSign"));
    // One of two roots with the same name and key.
    let expired = keys.root_with(&Profile { years: [2015, 2020], ..CA });
    let middle = keys.middle(&MIDDLE);
    verify(vec![expired, keys.root(), middle]).unwrap();
}

#[test]
fn a_signer_may_be_trusted_itself() {
    let key = key();
    for is_ca in [false, true] {
        let signer = Profile { issuer: "signer", is_ca, ..SIGNER };
        let certificate = issue(&signer, &key, &key);
        verify(certificate.clone(), &[certificate]).unwrap();
    }
    let signer = Profile { issuer: "signer", usage: None, ..SIGNER };
    let certificate = issue(&signer, &key, &key);
    refused(certificate.clone(), &[certificate], "neither `digitalSignature` nor");
}

#[test]
fn refuses_chains_beyond_a_path_length() {
    let (keys, lower) = (Keys::new(), key());
    let middle = keys.middle(&Profile { path_length: Some(0), ..MIDDLE });
    let lower_ca = issue(&Profile { name: "lower", issuer: "middle", ..CA }, &lower, &keys.0[1]);
    let signer = issue(&Profile { issuer: "lower", ..SIGNER }, &keys.0[2], &lower);
    refused(keys.root(), &[signer, lower_ca, middle.clone()], "PathLenConstraintViolated");
    verify(keys.root(), &[keys.signer(&SIGNER), middle]).unwrap();
}

#[test]
fn refuses_certificates_that_were_changed() {
    let keys = Keys::new();
    let chain = [keys.signer(&SIGNER), keys.middle(&MIDDLE)];
    for certificate in 0..chain.len() {
        for part in [3, 40] {
            let mut changed = chain.clone();
            let at = changed[certificate].len() - part; // in the signature, or before it
            changed[certificate][at] ^= 1;
            assert!(matches!(verify(keys.root(), &changed), Err(Error::Chain(_))), "{certificate}, {part}");
        }
    }
}

#[test]
fn passes_over_a_forged_issuer_of_the_same_name() {
    let (keys, forger) = (Keys::new(), key());
    let forged = issue(&MIDDLE, &forger, &forger);
    let (signer, middle) = (keys.signer(&SIGNER), keys.middle(&MIDDLE));
    verify(keys.root(), &[signer.clone(), forged.clone(), middle.clone()]).unwrap();
    verify(keys.root(), &[signer, middle.clone(), forged.clone()]).unwrap();
    let by_forger = issue(&SIGNER, &keys.0[2], &forger);
    refused(keys.root(), &[by_forger.clone(), forged.clone(), middle.clone()], "InvalidSignatureForPublicKey");
    refused(keys.root(), &[by_forger, middle, forged], "InvalidSignatureForPublicKey");
}

#[test]
fn needs_a_round_for_each_link_and_one_more() {
    let keys = Keys::new();
    let roots = Roots::from_der(vec![keys.root()]).unwrap();
    let (outcome, rounds) = in_rounds(&roots, &[keys.signer(&SIGNER), keys.middle(&MIDDLE)]);
    assert_eq!((outcome.is_ok(), rounds), (true, 3));
}

#[test]
fn a_result_is_not_that_of_another_signature() {
    let keys = Keys::new();
    let roots = Roots::from_der(vec![keys.root()]).unwrap();
    let chain = [keys.signer(&SIGNER), keys.middle(&MIDDLE)];
    let recorded = RecordedSignatures::new();
    while recorded.verify(&roots, &chain).is_none() {
        while let Some((number, check)) = recorded.unverified() {
            recorded.set(number, is_valid(&check));
        }
    }
    assert!(recorded.verify(&roots, &chain).unwrap().is_ok());
    // Other messages, signatures and keys.
    let other = Profile { name: "other", ..SIGNER };
    assert!(recorded.verify(&roots, &[keys.signer(&other), keys.middle(&MIDDLE)]).is_none());
    let mut changed = chain.clone();
    let last = changed[1].len() - 1;
    changed[1][last] ^= 1;
    assert!(RecordedSignatures::verify(&recorded, &roots, &changed).is_none());
    let other_root = Roots::from_der(vec![Keys::new().root()]).unwrap();
    assert!(recorded.verify(&other_root, &chain).is_none());
}

#[test]
fn nothing_is_decided_while_a_signature_is_unverified() {
    let keys = Keys::new();
    let roots = Roots::from_der(vec![keys.root()]).unwrap();
    let recorded = RecordedSignatures::new();
    for _ in 0..3 {
        assert!(recorded.verify(&roots, &[keys.signer(&SIGNER), keys.middle(&MIDDLE)]).is_none());
        assert_eq!(recorded.unverified().unwrap().0, 0);
    }
    recorded.set(99, true);
    assert!(recorded.verify(&roots, &[keys.signer(&SIGNER), keys.middle(&MIDDLE)]).is_none());
}

#[test]
fn has_the_algorithms_of_ring() {
    let mut expected: Vec<_> = webpki::ALL_VERIFICATION_ALGS.iter().map(|algorithm| ids(*algorithm)).collect();
    let mut found: Vec<_> = recorded::identified().into_iter().map(|(_, ids)| ids).collect();
    for list in [&mut expected, &mut found] {
        list.sort_unstable();
        list.dedup();
    }
    assert_eq!(found, expected);
}

#[test]
fn refuses_roots_that_are_no_certificates() {
    for roots in [vec![], vec![vec![]], vec![Keys::new().root(), b"not a certificate".to_vec()]] {
        assert!(matches!(Roots::from_der(roots), Err(Error::Root(_))));
    }
    let mut longer = Keys::new().root();
    longer.push(0);
    assert!(Roots::from_der(vec![longer]).is_err());
    assert!(Certificate::from_der(&Keys::new().root()).is_ok());
}

proptest! {
    /// Certificates come from the network: neither way panics, and both agree.
    #[test]
    fn changed_chains_have_the_same_result_both_ways(
        certificate in 0usize..2,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        static CHAIN: LazyLock<(Vec<u8>, [Vec<u8>; 2])> = LazyLock::new(|| {
            let keys = Keys::new();
            (keys.root(), [keys.signer(&SIGNER), keys.middle(&MIDDLE)])
        });
        let (root, mut chain) = CHAIN.clone();
        for (at, byte) in changes {
            *at.get_mut(&mut chain[certificate]) = byte;
        }
        let _ = verify(root, &chain);
    }
}
