//! The parser of EMBD in both layouts.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse("embd", file));
