//! Counters of a loader's requests and bytes.

use std::cell::Cell;

/// Counters over the lifetime of a loader.
#[derive(Debug, Default)]
pub struct Stats {
    requests: Cell<u64>,
    bytes_received: Cell<u64>,
    bytes_from_cache: Cell<u64>,
    bytes_decoded: Cell<u64>,
}

impl Stats {
    /// Number of requests to sources.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Number of body bytes received from sources, including those of headers.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.get()
    }

    /// Number of bytes read from the cache instead of a source.
    pub fn bytes_from_cache(&self) -> u64 {
        self.bytes_from_cache.get()
    }

    /// Number of decoded bytes of the tensors that were returned.
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
