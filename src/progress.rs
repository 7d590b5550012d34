//! Progress reports and cancellation of loads, conversions and verifications.

use crate::algorithm::Algorithm;
use std::ops::Range;

/// Receives the progress of one operation. `()` ignores it.
///
/// Native operations on several threads require a `Sync` implementation. A loader calls its implementation from one
/// thread only.
pub trait Progress {
    /// The operation will read this many bytes in total. For a loader these are the stored bytes of its tensors.
    fn expects(&self, total_bytes: u64) {
        let _ = total_bytes;
    }

    /// This many more of those bytes are processed.
    fn advanced(&self, bytes: u64) {
        let _ = bytes;
    }

    /// A loader received bytes. The default implementation calls [`Progress::advanced`] for bytes of a tensor.
    fn arrived(&self, arrived: BytesArrived<'_>) {
        if arrived.tensor.is_some() {
            self.advanced(arrived.range.end.saturating_sub(arrived.range.start));
        }
    }

    /// A loader read the whole model, and every checksum matched. `verified_by` is the algorithm that verified every
    /// file, as a whole or by digests of all its tensors; `None` if a tensor has no checksum, or if there are several
    /// algorithms.
    fn checked(&self, verified_by: Option<Algorithm>) {
        let _ = verified_by;
    }

    /// Whether a native operation should stop. It is called between pieces of work. Once it returns true, the operation
    /// cleans up and returns an error. To stop a loader, drop its future.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}

/// Bytes that a loader has just received.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BytesArrived<'a> {
    /// The number of the file in the model.
    pub shard: usize,
    /// The byte range of the file.
    pub range: Range<u64>,
    /// The number of the operation's connection that received the bytes, counted from 0.
    pub connection: usize,
    /// The tensor that the bytes belong to; `None` for bytes between tensors.
    pub tensor: Option<&'a str>,
}
