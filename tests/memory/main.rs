//! Upper bounds of the memory that reading, verifying and converting use, for large and for invalid files.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code, reason = "shared with the native tests")]
#[path = "../native/bytes.rs"]
mod bytes;
mod ceiling;
mod corruption;
mod index;
mod invalid_sizes;
#[cfg(feature = "http")]
mod network;
#[cfg(feature = "http")]
#[allow(dead_code, reason = "shared with the network tests")]
#[path = "../traps/server.rs"]
mod server;
mod tied;

use peak_alloc::PeakAlloc;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A lock that makes tests run one after another, because the allocator counts the memory of all threads.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of `work`, and the peak number of bytes that it allocated.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let result = work();
    (result, ALLOCATED.peak_usage().saturating_sub(before))
}
