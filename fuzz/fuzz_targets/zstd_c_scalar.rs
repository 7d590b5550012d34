//! Like `zstd_c`, but only with the scalar kernel, which this library enables natively. `zstd_c` uses the SIMD kernels,
//! which an app may enable.
#![no_main]

use libfuzzer_sys::fuzzer_mutate;
use structured_zstd::{CpuLevel, set_cpu_ceiling};
use weightstream_fuzz::{frames, zstd_c};

libfuzzer_sys::fuzz_target!(
    init: set_cpu_ceiling(CpuLevel::Scalar).expect("the level is set before the first use"),
    |stored: &[u8]| zstd_c::compare_with_c(stored)
);

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    frames::mutate(data, size, max_size, seed, fuzzer_mutate)
});
