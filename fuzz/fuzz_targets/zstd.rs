//! The decoder of Zstandard frames.
#![no_main]

use weightstream_fuzz::decoder::{Input, zstd};

libfuzzer_sys::fuzz_target!(|input: Input| zstd(&input));
