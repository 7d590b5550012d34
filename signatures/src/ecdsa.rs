//! Keys and signatures of ECDSA, in the terms of WebCrypto.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The curves of OpenSSF Model Signing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Curve {
    /// NIST P-256, also known as secp256r1.
    P256,
    /// NIST P-384, also known as secp384r1.
    P384,
    /// NIST P-521, also known as secp521r1.
    P521,
}

impl Curve {
    /// The curve with a name such as `P-256`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "P-256" => Some(Curve::P256),
            "P-384" => Some(Curve::P384),
            "P-521" => Some(Curve::P521),
            _ => None,
        }
    }

    /// The hash function with which keys on this curve sign models.
    pub fn hash(self) -> &'static str {
        match self {
            Curve::P256 => "SHA-256",
            Curve::P384 => "SHA-384",
            Curve::P521 => "SHA-512",
        }
    }

    /// The length of a coordinate in bytes.
    fn length(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    /// A signature as WebCrypto takes it: two numbers of equal length. In DER, in which it is stored, it is a sequence
    /// of two positive integers without unnecessary leading zeros. `None` for anything else.
    pub fn raw_signature(self, der: &[u8]) -> Option<Vec<u8>> {
        let (sequence, rest) = element(der, 0x30)?;
        let (r, s) = element(sequence, 2)?;
        let (s, end) = element(s, 2)?;
        let mut raw = self.padded(r)?;
        raw.extend(self.padded(s)?);
        (rest.is_empty() && end.is_empty()).then_some(raw)
    }

    /// A positive integer with the length of a coordinate.
    fn padded(self, integer: &[u8]) -> Option<Vec<u8>> {
        let digits = match integer {
            [0, rest @ ..] if rest.first().is_some_and(|first| *first >= 0x80) => rest,
            [1..=0x7f, ..] => integer,
            _ => return None, // zero, negative, or not the shortest form
        };
        let zeros = self.length().checked_sub(digits.len())?;
        Some([&vec![0; zeros], digits].concat())
    }
}

/// The content of the first element, which has this tag, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match der {
        [found, length @ 0..=0x7f, rest @ ..] if *found == tag => (length, rest),
        [found, 0x81, length @ 0x80..=0xff, rest @ ..] if *found == tag => (length, rest),
        _ => return None,
    };
    rest.split_at_checked(usize::from(*length))
}

/// How a bundle names a key: the SHA-256 of its SubjectPublicKeyInfo in PEM, in hexadecimal.
pub fn key_hint(der: &[u8]) -> String {
    const LINE_LENGTH: usize = 64;
    let text = STANDARD.encode(der);
    let mut hash = Sha256::new_with_prefix("-----BEGIN PUBLIC KEY-----\n");
    for line in text.as_bytes().chunks(LINE_LENGTH) {
        hash.update(line);
        hash.update("\n");
    }
    hash.update("-----END PUBLIC KEY-----\n");
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
