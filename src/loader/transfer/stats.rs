//! What a loader has done so far, and how it tells while it works.

use std::cell::Cell;
use std::ops::Range;

/// Counters over the life of a loader.
#[derive(Debug, Default)]
pub struct Stats {
    requests: Cell<u64>,
    bytes_received: Cell<u64>,
    bytes_from_cache: Cell<u64>,
    bytes_decoded: Cell<u64>,
}

impl Stats {
    /// Requests made to sources.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Body bytes that came from sources, heads included.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.get()
    }

    /// Bytes that would have come from sources, had they not been kept from an earlier load.
    pub fn bytes_from_cache(&self) -> u64 {
        self.bytes_from_cache.get()
    }

    /// Bytes of tensors that were handed out.
    pub fn bytes_decoded(&self) -> u64 {
        self.bytes_decoded.get()
    }

    pub(crate) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    pub(crate) fn count_received(&self, bytes: u64, from_cache: bool) {
        let counter = if from_cache { &self.bytes_from_cache } else { &self.bytes_received };
        counter.set(counter.get() + bytes);
    }

    pub(crate) fn count_decoded(&self, bytes: u64) {
        self.bytes_decoded.set(self.bytes_decoded.get() + bytes);
    }
}

/// Bytes that have just arrived.
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

/// Who watches an operation.
pub trait Observer {
    /// The operation needs so many payload bytes: those of its tensors as the files store them.
    fn expects(&self, payload_bytes: u64);
    /// Bytes have arrived.
    fn arrived(&self, arrived: Arrived<'_>);
    /// The operation has read the whole model, and every checksum of its files matched. `verified_by` is the algorithm that each
    /// file as a whole was checked by; `None` where a file has no such checksum.
    fn checked(&self, verified_by: Option<&'static str>) {
        let _ = verified_by;
    }
}

/// Nobody watches.
impl Observer for () {
    fn expects(&self, _: u64) {}
    fn arrived(&self, _: Arrived<'_>) {}
}
