//! Traps: situations in which other loaders failed. Each trap defines the behaviour of a server and the expected
//! result. The native tests run each trap as a test; the browser tests run them with the package.
//!
//! A crate that includes this module must define the macro `traps!` first, which receives the list of named traps.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[allow(dead_code, reason = "shared with the native tests")]
#[path = "../native/bytes.rs"]
pub(crate) mod bytes;
pub(crate) mod changed_files;
pub(crate) mod connections;
#[allow(dead_code, reason = "each test that includes this module uses a part of it")]
pub(crate) mod hub;
pub(crate) mod model;
pub(crate) mod responses;
pub(crate) mod retries;
#[allow(dead_code, reason = "each test that includes this module uses a part of it")]
pub(crate) mod server;
pub(crate) mod whole_responses;

use server::{Reply, Request};

/// The number of bytes that opening a file reads, unless its header is longer.
pub(crate) const HEADER_BYTES: usize = 65_536;

/// The default stall timeout. It is long, because on a busy machine a delay must not count as a stall.
const STALL_TIMEOUT_MS: u64 = 5_000;

/// The maximum number of retries.
pub(crate) const ATTEMPTS: usize = 6;

pub(crate) type Script = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// The behaviour of a server, what is loaded from it, and the expected result.
pub(crate) struct Trap {
    pub(crate) script: Script,
    /// What is loaded, one after the other, once the model is open. If an error is expected, all loads but the last
    /// must succeed; if there are no loads, `open` must fail.
    pub(crate) loads: &'static [Load],
    /// The accepted codes of the error. If there are none, everything must be loaded, bit-exact.
    pub(crate) codes: &'static [&'static str],
    /// The expected HTTP status of the error.
    pub(crate) status: Option<u16>,
    /// The exact number of requests.
    pub(crate) requests: Option<usize>,
    /// The maximum number of body bytes that the server sends.
    pub(crate) sent: Option<usize>,
    /// The number of a request, and its minimum delay after the previous request in milliseconds.
    pub(crate) min_delay: Option<(usize, u64)>,
    /// The time in milliseconds after which a connection that delivers no bytes counts as stalled.
    pub(crate) stall_timeout_ms: u64,
}

/// A call of an open loader.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// `loadTensor` of one tensor.
    One(&'static str),
    /// `tensors()` with these names.
    Many(&'static [&'static str]),
}

impl Trap {
    /// A trap in which only the model is opened.
    pub(crate) fn new(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let script = Box::new(script);
        Trap {
            script,
            loads: &[],
            codes: &[],
            status: None,
            requests: None,
            sent: None,
            min_delay: None,
            stall_timeout_ms: STALL_TIMEOUT_MS,
        }
    }

    pub(crate) fn loads(self, loads: &'static [Load]) -> Self {
        Trap { loads, ..self }
    }

    pub(crate) fn fails(self, codes: &'static [&'static str]) -> Self {
        Trap { codes, ..self }
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        Trap { status: Some(status), ..self }
    }

    pub(crate) fn in_requests(self, requests: usize) -> Self {
        Trap { requests: Some(requests), ..self }
    }

    pub(crate) fn sends_at_most(self, bytes: usize) -> Self {
        Trap { sent: Some(bytes), ..self }
    }

    pub(crate) fn with_stall_timeout(self, stall_timeout_ms: u64) -> Self {
        Trap { stall_timeout_ms, ..self }
    }

    pub(crate) fn with_min_delay(self, number: usize, delay_ms: u64) -> Self {
        Trap { min_delay: Some((number, delay_ms)), ..self }
    }
}
