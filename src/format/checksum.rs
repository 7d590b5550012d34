//! Checksums that cover more of a file than one tensor.

use crate::index::Digest;
use std::ops::Range;

/// A checksum over a stretch of a file. It can be compared only once all of the stretch was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StretchChecksum {
    /// The bytes that it covers.
    pub over: Range<u64>,
    /// The expected value.
    pub stated: Stated,
    /// Where the value comes from, as error messages name it: "the footer".
    pub by: String,
}

/// Where a file states a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stated {
    /// In what was read already.
    Digest(Digest),
    /// A CRC-32/IEEE, little-endian, at this offset, which may be the end of the file.
    Crc32At(u64),
}
