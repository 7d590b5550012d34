//! The parser of APR in all its versions.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse("apr", file));
