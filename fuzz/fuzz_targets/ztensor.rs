//! The parser of zTensor 0.1 to 1.2.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse("ztensor", file));
