//! The decoder of LZ4 blocks as APR has them.
#![no_main]

use weightstream_fuzz::decoder::{Input, lz4_blocks};

libfuzzer_sys::fuzz_target!(|input: Input| lz4_blocks(&input));
