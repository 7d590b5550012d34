//! How loads, conversions and checks report their progress, and learn that they should stop.

use std::ops::Range;

/// Receives the progress of one operation. `()` ignores it.
///
/// Native work on several threads needs one that is `Sync`; a loader calls its own from one thread.
pub trait Progress {
    /// The operation reads this many bytes in all. For a loader these are the bytes of its tensors as the files store
    /// them.
    fn expects(&self, total_bytes: u64) {
        let _ = total_bytes;
    }

    /// This many more of those bytes are done.
    fn advanced(&self, bytes: u64) {
        let _ = bytes;
    }

    /// A loader received bytes. By default [`Progress::advanced`] is called for those that belong to a tensor.
    fn arrived(&self, arrived: Arrived<'_>) {
        if arrived.tensor.is_some() {
            self.advanced(arrived.range.end.saturating_sub(arrived.range.start));
        }
    }

    /// A loader read the whole model, and every checksum of its files matched. `verified_by` is the algorithm that each
    /// file as a whole was checked by; `None` where a file has no such checksum.
    fn checked(&self, verified_by: Option<&'static str>) {
        let _ = verified_by;
    }

    /// Asked between pieces of native work. Once it returns true, the work cleans up and ends in an error. To stop a
    /// loader, drop its future.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}

/// Bytes that a loader has just received.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Arrived<'a> {
    /// Which file of the model.
    pub shard: usize,
    /// Which bytes of it.
    pub range: Range<u64>,
    /// Which of the operation's connections brought them, counted from 0.
    pub connection: usize,
    /// The tensor that they belong to; `None` for bytes between tensors, which are no payload.
    pub tensor: Option<&'a str>,
}
