//! As `zstd_c`, with the kernel alone that this library turns on natively: `zstd_c` has those of vectors, which an app
//! may turn on.
#![no_main]

use libfuzzer_sys::fuzzer_mutate;
use structured_zstd::{CpuLevel, set_cpu_ceiling};
use weightstream_fuzz::{frames, zstd_c};

libfuzzer_sys::fuzz_target!(
    init: set_cpu_ceiling(CpuLevel::Scalar).expect("nothing was decoded before"),
    |stored: &[u8]| zstd_c::same_as_c(stored)
);

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    frames::mutate(data, size, max_size, seed, fuzzer_mutate)
});
