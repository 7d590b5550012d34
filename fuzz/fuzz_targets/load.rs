//! Loads a file of any format over a faulty simulated network.
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use weightstream_fuzz::load::{Script, load};

/// The length of the network script at the start of an input; the rest is the file. With a fixed length, mutations of
/// the script do not move the header of the file. `cargo xtask fuzz` writes seeds in this layout.
const SCRIPT_BYTES: usize = 64;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((script, file)) = input.split_at_checked(SCRIPT_BYTES)
        && let Ok(script) = Script::arbitrary(&mut Unstructured::new(script))
    {
        load(script, file);
    }
});
