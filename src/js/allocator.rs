//! Notes the allocation that failed: a module that runs out of memory traps without a word, and nothing else could tell
//! that from a fault.
//!
//! Rust calls no hook on stable for this, so that an allocator of our own is the one place to learn it from. It passes
//! everything on to the system's.

#![allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait; each call is passed on as it came")]
#![allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use wasm_bindgen::prelude::wasm_bindgen;

/// The bytes that the last allocation asked for and did not get; 0 where it got them.
static FAILED_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Noting;

#[global_allocator]
static ALLOCATOR: Noting = Noting;

// SAFETY: each method calls the system's allocator with its own arguments and gives back what that gave, so that both
// sides keep their contracts. What is noted is an integer.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised us.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised us.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as the caller promised us.
        noted(unsafe { System.realloc(memory, layout, new_size) }, new_size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised us.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn noted(memory: *mut u8, bytes: usize) -> *mut u8 {
    FAILED_BYTES.store(if memory.is_null() { bytes } else { 0 }, Ordering::Relaxed);
    memory
}

/// How many bytes could not be had, if the last allocation failed; else 0. It only reads, so that it may be called
/// after a trap.
#[wasm_bindgen(js_name = failedAllocation)]
pub fn failed_allocation() -> usize {
    FAILED_BYTES.load(Ordering::Relaxed)
}
