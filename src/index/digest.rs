//! Expected digests of components.

use super::Encoding;
use crate::digest::Digest;

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

/// Which bytes of a component a digest covers. For raw components, stored and decoded bytes are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestedBytes {
    /// The bytes as stored.
    Stored,
    /// The decoded bytes.
    Decoded,
    /// The stored bytes of the first of several streams. Those of the others have digests, too, and the decoder
    /// compares all of them: see [`ByteStreams`](super::ByteStreams).
    #[doc(hidden)]
    Streams,
}
