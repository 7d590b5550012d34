//! What bytes can be checked by.

use super::Encoding;

/// A checksum as a file states it.
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

/// What a component's bytes can be checked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentDigest {
    /// What they should have.
    pub digest: Digest,
    /// Which bytes it is over.
    pub over: DigestedBytes,
}

impl ComponentDigest {
    /// The digest of the bytes as stored, of a component that is stored in this encoding, where it is a strong one.
    pub fn content(&self, encoding: Encoding) -> Option<&Digest> {
        let is_stored = self.over == DigestedBytes::Stored || encoding == Encoding::Raw;
        (is_stored && self.digest.is_strong()).then_some(&self.digest)
    }
}

impl Digest {
    /// Whether nobody can make other bytes that have it: then it stands for the bytes themselves.
    pub fn is_strong(&self) -> bool {
        matches!(self, Digest::Sha256(_) | Digest::Blake3(_))
    }
}

/// Which bytes of a component a digest is over. They are the same where the component is stored raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestedBytes {
    /// The bytes as stored.
    Stored,
    /// The bytes once decoded.
    Decoded,
}
