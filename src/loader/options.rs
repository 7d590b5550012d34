//! Options of a loader.

use crate::error::{Error, ErrorKind, Result};
use crate::loader::digests::Digests;
use crate::loader::previous::PreviousTensors;
use crate::loader::signed_digests::SignedDigests;
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use crate::quantization::ModelConfig;
use crate::retry::RetryPolicy;
use crate::setters::setters;
use std::sync::Arc;

/// Options of a [`Loader`](crate::loader::Loader).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Maximum number of concurrent connections for one operation. An operation starts with one connection and adds
    /// more only while each addition increases the throughput.
    pub concurrency: usize,
    /// Two requested ranges that are at most this many bytes apart are read as one range.
    pub coalesce_gap_bytes: u64,
    /// Whether to verify the checksums that the model's files state for the bytes that are read.
    pub verify: bool,
    /// Maximum number of bytes that one call holds of tensors that it has not returned yet. All prefetched tensors
    /// together have one such budget. When the budget is used up, reading pauses. A single tensor may be larger than
    /// the budget.
    pub max_memory_bytes: u64,
    /// Digests that the caller pins. They are checked in addition to those that the model's files state.
    pub digests: Digests,
    /// The verified signature of the model. The bytes of every file are then those that were signed: each file is read
    /// and compared as a whole before anything of it is returned.
    pub signature: Option<SignedDigests>,
    /// What `config.json` states about quantized tensors. If `None`, the file beside the model is read if a tensor is
    /// ambiguous without it.
    pub config: Option<ModelConfig>,
    /// When to retry after a failure.
    pub retry: RetryPolicy,
    /// The tensors of the previous revision, from which a published model may state differences. By default, those that
    /// the source has cached.
    pub previous: Option<Arc<dyn PreviousTensors + Send + Sync>>,
}

impl Options {
    setters! {
        with_concurrency concurrency: usize;
        with_coalesce_gap_bytes coalesce_gap_bytes: u64;
        with_verify verify: bool;
        with_max_memory_bytes max_memory_bytes: u64;
        with_digests digests: Digests;
        with_signature signature: Option<SignedDigests>;
        with_config config: Option<ModelConfig>;
        with_retry retry: RetryPolicy;
        with_previous previous: Option<Arc<dyn PreviousTensors + Send + Sync>>;
    }
}

impl Options {
    /// Checks the values, before anything is opened.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a value that no load can work with.
    pub(crate) fn check(&self) -> Result<()> {
        if self.concurrency == 0 {
            let error = Error::new(ErrorKind::InvalidArgument, "`concurrency` is 0, so that nothing can be requested");
            return Err(error.advise("Choose 1 or more, or leave it out."));
        }
        Ok(())
    }
}

/// Enough for several connections that read large tensors, and little memory for a tab.
const DEFAULT_MAX_MEMORY_BYTES: u64 = 256 << 20;

impl Default for Options {
    fn default() -> Self {
        // Browser loaders commonly use 4 connections: browsers allow 6 per host, and the page needs some of them.
        Options {
            concurrency: 4,
            coalesce_gap_bytes: DEFAULT_COALESCE_GAP_BYTES,
            verify: true,
            max_memory_bytes: DEFAULT_MAX_MEMORY_BYTES,
            digests: Digests::default(),
            signature: None,
            config: None,
            retry: RetryPolicy::default(),
            previous: None,
        }
    }
}
