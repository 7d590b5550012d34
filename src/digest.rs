//! Digests of bytes, as files and callers state them. `codec` computes them.

use crate::algorithm::Algorithm;
use crate::error::{Error, ErrorKind, Result};

/// A checksum or digest, as stated in a file or pinned by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Digest {
    /// CRC-32/IEEE.
    Crc32(u32),
    /// CRC-32C (Castagnoli).
    #[cfg(feature = "crc32c")]
    Crc32c(u32),
    /// XXH3 with its 64-bit output.
    #[cfg(feature = "xxh3")]
    Xxh3(u64),
    /// SHA-256.
    Sha256([u8; 32]),
    /// BLAKE3 with its ordinary 256-bit output.
    Blake3([u8; 32]),
}

impl Digest {
    /// The name of the algorithm, as in `verified`.
    pub fn algorithm(self) -> Algorithm {
        match self {
            Digest::Crc32(_) => Algorithm::Crc32,
            #[cfg(feature = "crc32c")]
            Digest::Crc32c(_) => Algorithm::Crc32c,
            #[cfg(feature = "xxh3")]
            Digest::Xxh3(_) => Algorithm::Xxh3,
            Digest::Sha256(_) => Algorithm::Sha256,
            Digest::Blake3(_) => Algorithm::Blake3,
        }
    }

    /// A BLAKE3 digest that a file or a caller states. Everything that reads one calls this function, because the code
    /// that computes it may have to be loaded.
    pub(crate) fn blake3(digest: [u8; 32]) -> Self {
        #[cfg(npm)]
        crate::deferred::expect_blake3();
        Digest::Blake3(digest)
    }

    /// Whether the algorithm is collision-resistant, so that the digest identifies the bytes.
    #[doc(hidden)]
    pub fn is_strong(&self) -> bool {
        matches!(self, Digest::Sha256(_) | Digest::Blake3(_))
    }
}

/// Parses `sha256:…`, `blake3:…`, `crc32:…` or `crc32c:…`, with the value in hexadecimal.
impl std::str::FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (algorithm, hex) = text.split_once(':').unwrap_or_default();
        let digest = match Algorithm::from_name(algorithm) {
            Some(Algorithm::Crc32) => from_hex(hex).map(u32::from_be_bytes).map(Digest::Crc32),
            #[cfg(feature = "crc32c")]
            Some(Algorithm::Crc32c) => from_hex(hex).map(u32::from_be_bytes).map(Digest::Crc32c),
            Some(Algorithm::Sha256) => from_hex(hex).map(Digest::Sha256),
            Some(Algorithm::Blake3) => from_hex(hex).map(Digest::blake3),
            _ => None,
        };
        digest.ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, format!("\"{text}\" is not a digest"));
            error.advise("Write it as sha256:, blake3:, crc32: or crc32c: followed by all of its hexadecimal digits.")
        })
    }
}

/// Writes the value in hexadecimal, without the algorithm.
impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Digest::Crc32(crc) => write!(f, "{crc:08x}"),
            #[cfg(feature = "crc32c")]
            Digest::Crc32c(crc) => write!(f, "{crc:08x}"),
            #[cfg(feature = "xxh3")]
            Digest::Xxh3(hash) => write!(f, "{hash:016x}"),
            Digest::Sha256(bytes) | Digest::Blake3(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// Decodes hexadecimal text. Returns `None` if it does not have exactly two digits for each of `N` bytes.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    bytes_from_hex(text)?.try_into().ok()
}

/// Decodes hexadecimal text. Returns `None` if it does not have exactly two digits for each byte.
pub(crate) fn bytes_from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect();
    rest.is_empty().then_some(bytes)
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_hexadecimal_of_the_exact_length() {
        assert_eq!(from_hex("0aFf"), Some([10, 255]));
        for wrong in ["0aF", "0aFf0", "0aFf00", "0aFg", "+aff", "0äff", ""] {
            assert_eq!(from_hex::<2>(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parses_digests_with_their_algorithm() {
        let spelled =
            [("crc32", Digest::Crc32(0xa)), ("crc32c", Digest::Crc32c(0xb)), ("sha256", Digest::Sha256([7; 32]))];
        for (algorithm, digest) in spelled.into_iter().chain([("blake3", Digest::Blake3([0xfe; 32]))]) {
            assert_eq!(format!("{algorithm}:{digest}").parse(), Ok(digest));
        }
        for wrong in ["", "sha256", "sha256:", "crc32:0000000", "md5:00000000", "crc32:0000000g", "blake3:00"] {
            assert_eq!(wrong.parse::<Digest>().unwrap_err().kind, ErrorKind::InvalidArgument, "{wrong}");
        }
    }
}
