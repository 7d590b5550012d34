//! The names of checksums and digests.

use crate::error::{Error, ErrorKind, Result};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The algorithm of a checksum or digest with which bytes were verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// BLAKE3 with its ordinary 256-bit output.
    Blake3,
    /// CRC-32/IEEE.
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// SHA-256.
    Sha256,
    /// XXH3 with its 64-bit output.
    Xxh3,
}

impl Algorithm {
    /// The name in reports and in the text of digests, such as `sha256`.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "crc32",
            Algorithm::Crc32c => "crc32c",
            Algorithm::Xxh3 => "xxh3",
            Algorithm::Sha256 => "sha256",
            Algorithm::Blake3 => "blake3",
        }
    }

    /// The algorithm of this name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<Algorithm> {
        use Algorithm::{Blake3, Crc32, Crc32c, Sha256, Xxh3};
        [Blake3, Crc32, Crc32c, Sha256, Xxh3].into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// Reads the name.
impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let unknown = || Error::new(ErrorKind::InvalidArgument, format!("\"{name}\" is not the name of a checksum"));
        Algorithm::from_name(name).ok_or_else(unknown)
    }
}

/// Writes the name in reports and in the text of digests, such as `sha256`.
impl Display for Algorithm {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name.
#[cfg(web)]
impl From<Algorithm> for wasm_bindgen::JsValue {
    fn from(algorithm: Algorithm) -> Self {
        algorithm.name().into()
    }
}
