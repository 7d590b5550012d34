//! The decoder of DEFLATE.
#![no_main]

use weightstream_fuzz::decoder::{Input, deflate};

libfuzzer_sys::fuzz_target!(|input: Input| deflate(&input));
