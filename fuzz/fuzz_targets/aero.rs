//! The parser of AERO and the files of an AEROSET.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse("aero", file));
