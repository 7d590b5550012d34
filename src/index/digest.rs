//! Digests of components and files.

use super::Encoding;

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

/// The expected digest of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentDigest {
    /// The expected digest.
    pub digest: Digest,
    /// Which bytes the digest covers.
    pub over: DigestedBytes,
}

impl ComponentDigest {
    /// The digest, if it is strong and covers the stored bytes of a component in this encoding.
    pub fn content(&self, encoding: Encoding) -> Option<&Digest> {
        let is_stored = self.over == DigestedBytes::Stored || encoding == Encoding::Raw;
        (is_stored && self.digest.is_strong()).then_some(&self.digest)
    }
}

impl Digest {
    /// Whether the algorithm is collision-resistant, so that the digest identifies the bytes.
    pub fn is_strong(&self) -> bool {
        matches!(self, Digest::Sha256(_) | Digest::Blake3(_))
    }
}

/// Which bytes of a component a digest covers. For raw components, stored and decoded bytes are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestedBytes {
    /// The bytes as stored.
    Stored,
    /// The decoded bytes.
    Decoded,
}
