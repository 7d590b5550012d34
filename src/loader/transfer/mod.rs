//! Transfers the bytes of one file: requests, resumption after failures, and detection of changed files.

pub(crate) mod file;
pub(crate) mod joined;
pub(crate) mod known_blocks;
mod next_request;
pub(crate) mod overlap;
pub(crate) mod priority;
pub(crate) mod range_reader;
pub(crate) mod remote;
mod seek_table;
pub(crate) mod seen_blocks;
pub(crate) mod signed;
pub(crate) mod stats;
pub(crate) mod streams;
pub(crate) mod truncated;
pub(crate) mod unpack;

/// The length of the buffer for compressed bytes, discarded bytes and large raw tensors. It is smaller under Miri,
/// which takes minutes to fill a quarter of a megabyte with zeros, byte by byte.
pub(crate) const SCRATCH_BYTES: u64 = if cfg!(miri) { 1 << 10 } else { 256 << 10 };
