//! The decoder of streams of bytes.
#![no_main]

use weightstream_fuzz::byte_streams::{Input, check};

libfuzzer_sys::fuzz_target!(|input: Input| {
    check(&input);
});
