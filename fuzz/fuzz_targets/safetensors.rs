//! The parser of SafeTensors.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse("safetensors", file));
