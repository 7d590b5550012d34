//! Damaged and malicious files. No file causes a panic, memory and time are bounded in proportion to the file size, and
//! the loader and the native reader accept the same files.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

#[cfg(feature = "aero")]
mod aero;
mod apr;
#[cfg(all(feature = "npz", feature = "pytorch"))]
mod archives;
mod byte_streams;
#[cfg(feature = "cbor")]
mod cbor;
mod ceiling;
#[path = "../corpus/mod.rs"]
mod corpus;
mod damage;
mod generated;
#[cfg(feature = "gguf")]
mod gguf;
mod json;
#[cfg(feature = "onnx")]
mod onnx;
mod zstd;

use futures::TryStreamExt;
use futures::executor::block_on;
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::source::memory::MemorySource;
use weightstream::{ErrorKind, Result};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// A lock that makes tests run one after another, because the allocator counts the memory of all threads.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(source: MemorySource) -> Result<Rc<Loader<MemorySource>>> {
    block_on(async {
        let loader = Rc::new(Loader::open(source, Options::default()).await?);
        loader.load_metadata().await?;
        loader.load_index().await?;
        Ok(loader)
    })
}

fn load(loader: &Rc<Loader<MemorySource>>) -> Result<()> {
    block_on(async {
        let mut loads = Box::pin(loader.tensors(None, Rc::new(())).await?);
        while loads.try_next().await?.is_some() {}
        Ok(())
    })
}

fn is_internal(outcome: &Result<()>) -> bool {
    matches!(outcome, Err(error) if error.kind == ErrorKind::Internal)
}

/// Returns the result of `work`, and the peak number of bytes that it allocated.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let result = work();
    (result, ALLOCATED.peak_usage().saturating_sub(before))
}

/// Returns the result of `work`. Fails if its peak allocation exceeds `limit` bytes.
fn with_limit<T>(limit: usize, what: &str, work: impl FnOnce() -> T) -> Result<T, TestCaseError> {
    let (result, allocated) = peak_of(work);
    prop_assert!(allocated <= limit, "{what} allocated {allocated} bytes; the limit is {limit}");
    Ok(result)
}
