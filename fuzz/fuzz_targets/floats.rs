//! Loads quantized tensors and weights with an adapter as floats.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weightstream_fuzz::floats::floats(input));
