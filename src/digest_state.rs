//! States of SHA-256 computations, from which the digest of a file can be continued: its bytes need not come in order.
//!
//! The state after the first n bytes is all that is needed to digest the bytes after them. Digesting the first n bytes
//! gives this state again, so that a stated one is always compared. A wrong one costs time, but no other file passes.

use crate::digest::bytes_from_hex;

/// The number of bytes that SHA-256 processes at once.
pub(crate) const BLOCK_BYTES: u64 = 64;

/// The number of bytes of the words of a state.
pub(crate) const WORDS_BYTES: usize = 32;

/// The state of a SHA-256 computation after the bytes of a file before an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestState {
    /// The number of bytes before.
    pub offset: u64,
    /// The eight words of the state after the last whole block of 64 bytes, big-endian as those of a digest, and the
    /// bytes after that block.
    bytes: Vec<u8>,
}

impl DigestState {
    /// The state with these words and bytes. `None` if there are not as many bytes as `offset` leaves.
    pub(crate) fn new(offset: u64, bytes: Vec<u8>) -> Option<Self> {
        let length = WORDS_BYTES as u64 + offset % BLOCK_BYTES;
        (bytes.len() as u64 == length).then_some(DigestState { offset, bytes })
    }

    /// Parses the words and bytes in hexadecimal. `None` if there are not as many as `offset` leaves.
    pub fn parse(offset: u64, hex: &str) -> Option<Self> {
        DigestState::new(offset, bytes_from_hex(hex)?)
    }

    /// The words, and the bytes after the last whole block.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes the words and bytes in hexadecimal.
impl std::fmt::Display for DigestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
