//! A global allocator that records the size of a failed allocation.
//!
//! A module that runs out of memory traps without a message, so the trap alone cannot be distinguished from a bug.
//! Stable Rust has no hook for allocation errors. Every call is forwarded to the system allocator.

#![allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait; each call is forwarded unchanged")]
#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use wasm_bindgen::prelude::wasm_bindgen;

/// The size in bytes of the last allocation if it failed, otherwise 0.
static FAILED_BYTES: AtomicUsize = AtomicUsize::new(0);

struct RecordingAllocator;

#[global_allocator]
static ALLOCATOR: RecordingAllocator = RecordingAllocator;

// SAFETY: each method forwards its arguments to the system allocator and returns its result, so the contract of
// `GlobalAlloc` holds. Recording only stores an integer.
unsafe impl GlobalAlloc for RecordingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        record(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        record(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        record(unsafe { System.realloc(memory, layout, new_size) }, new_size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn record(memory: *mut u8, bytes: usize) -> *mut u8 {
    FAILED_BYTES.store(if memory.is_null() { bytes } else { 0 }, Ordering::Relaxed);
    memory
}

/// Returns the size in bytes of the last allocation if it failed, otherwise 0. It only reads a number, so it may be
/// called after a trap.
#[wasm_bindgen(js_name = failedAllocation)]
pub fn failed_allocation() -> usize {
    FAILED_BYTES.load(Ordering::Relaxed)
}
