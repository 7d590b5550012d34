//! Compares the kernel for blocks of Zstandard without sequences with the C library, on frames that the C encoder wrote
//! and the fuzzer mutated.
#![no_main]

use libfuzzer_sys::fuzzer_mutate;
use weightstream_fuzz::{frames, zstd_literals};

libfuzzer_sys::fuzz_target!(|stored: &[u8]| zstd_literals::compare_with_c(stored));

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    frames::mutate(data, size, max_size, seed, fuzzer_mutate)
});
