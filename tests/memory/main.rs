//! How much memory reading, checking and converting take, whatever the files say and however large they are.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code, reason = "shared with the tests of what is read and written")]
#[path = "../native/bytes.rs"]
mod bytes;
mod ceiling;
mod damage;
mod forged;
#[cfg(feature = "http")]
mod network;
#[cfg(feature = "http")]
#[allow(dead_code, reason = "shared with the tests of the network")]
#[path = "../traps/server.rs"]
mod server;

use peak_alloc::PeakAlloc;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The allocator counts for all threads: tests run one after another.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `work` gives, and the most bytes that it held at a time.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let result = work();
    (result, ALLOCATED.peak_usage().saturating_sub(before))
}
