//! A whole load: a file of any format over a network that breaks, stalls and lies.
#![no_main]

use weightstream_fuzz::load::{Script, load};

libfuzzer_sys::fuzz_target!(|input: (Script, &[u8])| load(input.0, input.1));
