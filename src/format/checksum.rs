//! Checksums that cover more of a file than one tensor.

use crate::digest::Digest;
use std::ops::Range;

/// A checksum over a byte range of a file. It can be compared only after the whole range has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeChecksum {
    /// The byte range that the checksum covers.
    pub over: Range<u64>,
    /// The expected value.
    pub stated: Expected,
    /// Where the value comes from, as in error messages: "the footer".
    pub by: String,
}

/// Where a file states a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The value, from bytes that have been read already.
    Digest(Digest),
    /// The offset of a little-endian CRC-32/IEEE value, which may be at the end of the file.
    Crc32At(u64),
}
