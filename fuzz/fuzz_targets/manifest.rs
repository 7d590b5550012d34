//! The parser of JSON documents that name files.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse("manifest", file));
