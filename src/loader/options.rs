//! How a loader works, as its caller has it.

use crate::loader::digests::Digests;
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use crate::retry::Policy;
use crate::setters::setters;

/// How a loader works.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How many connections one operation may use at once. It begins with one, and adds more only while that raises the
    /// throughput.
    pub concurrency: usize,
    /// Two wanted ranges closer than this many bytes are read as one.
    pub coalesce_gap_bytes: u64,
    /// Whether to check what the format allows for the bytes that are read.
    pub verify: bool,
    /// How many bytes one call may hold of tensors that it has not handed out yet; all that was prefetched counts as
    /// one. Where there is no room, nothing more is read. A single tensor may be larger.
    pub max_memory_bytes: u64,
    /// What the model must be, whatever its files say.
    pub digests: Digests,
    /// When to try again after a failure.
    pub retry: Policy,
}

impl Options {
    setters! {
        with_concurrency concurrency: usize;
        with_coalesce_gap_bytes coalesce_gap_bytes: u64;
        with_verify verify: bool;
        with_max_memory_bytes max_memory_bytes: u64;
        with_digests digests: Digests;
        with_retry retry: Policy;
    }
}

/// Enough for several connections to be busy with large tensors, and little to a tab.
const DEFAULT_MAX_MEMORY_BYTES: u64 = 256 << 20;

impl Default for Options {
    fn default() -> Self {
        // 4 connections are what browser loaders settled on: a browser has 6 to a host, and the page needs some.
        Options {
            concurrency: 4,
            coalesce_gap_bytes: DEFAULT_COALESCE_GAP_BYTES,
            verify: true,
            max_memory_bytes: DEFAULT_MAX_MEMORY_BYTES,
            digests: Digests::default(),
            retry: Policy::default(),
        }
    }
}
