//! The traps that other loaders fell into: what a server does, and what must come of it all the same. They are set to
//! the native loader, one test each, and to the package in browsers.
//!
//! Whoever includes this module defines the macro `traps!` first: what becomes of a list of named traps.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a server of tests")]

pub(crate) mod answers;
pub(crate) mod breaking;
#[allow(dead_code, reason = "shared with the tests of what is read and written")]
#[path = "../native/bytes.rs"]
pub(crate) mod bytes;
pub(crate) mod changing;
pub(crate) mod model;
pub(crate) mod retrying;
#[allow(dead_code, reason = "each of its users needs another part of it")]
pub(crate) mod server;
pub(crate) mod whole;

use server::{Reply, Request};

/// What is read of a file to open it: the head, unless it is longer.
pub(crate) const HEAD_BYTES: usize = 65_536;

/// A busy machine is no stalled connection.
const PATIENCE_MS: u64 = 5_000;

/// After a first failure, so many more are borne.
pub(crate) const ATTEMPTS: usize = 6;

pub(crate) type Script = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// A server, what is asked of the loader, and what must come of it.
pub(crate) struct Trap {
    pub(crate) script: Script,
    /// What is loaded, one after the other, once the model is open. Where the trap ends in an error, all but the last
    /// succeed; where nothing is loaded, the model does not open.
    pub(crate) loads: &'static [Load],
    /// The codes of the error in which it ends, any of them; none where everything is loaded, bit-exact.
    pub(crate) codes: &'static [&'static str],
    /// The status that the error tells.
    pub(crate) status: Option<u16>,
    /// How many requests it takes, exactly.
    pub(crate) requests: Option<usize>,
    /// How many bytes of bodies the server sends at most.
    pub(crate) sent: Option<usize>,
    /// The request so numbered comes so many milliseconds after the one before it, at least.
    pub(crate) waits: Option<(usize, u64)>,
    /// After how many milliseconds without a byte a connection counts as stalled.
    pub(crate) patience_ms: u64,
}

/// What is asked of an open model.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// One tensor, by `loadTensor`.
    One(&'static str),
    /// Several, by `tensors()`.
    Many(&'static [&'static str]),
}

impl Trap {
    /// A trap out of which nothing but the open model comes.
    pub(crate) fn new(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let script = Box::new(script);
        Trap {
            script,
            loads: &[],
            codes: &[],
            status: None,
            requests: None,
            sent: None,
            waits: None,
            patience_ms: PATIENCE_MS,
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

    pub(crate) fn with_patience(self, patience_ms: u64) -> Self {
        Trap { patience_ms, ..self }
    }

    pub(crate) fn waits(self, before: usize, at_least_ms: u64) -> Self {
        Trap { waits: Some((before, at_least_ms)), ..self }
    }
}
