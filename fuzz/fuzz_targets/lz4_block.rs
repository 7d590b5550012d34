//! The decoder of one LZ4 block of any length.
#![no_main]

use weightstream_fuzz::decoder::{Input, lz4_block};

libfuzzer_sys::fuzz_target!(|input: Input| lz4_block(&input));
