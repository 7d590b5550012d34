//! A whole load: a file of any format over a network that breaks, stalls and lies.
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use weightstream_fuzz::load::{Script, load};

/// An input is so many bytes that the network's script is made of, then the file: as long as a fuzzer leaves the
/// script's length alone, whatever it does to the script leaves the file's head where it is. `cargo xtask fuzz` seeds
/// it so.
const SCRIPT_BYTES: usize = 64;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((script, file)) = input.split_at_checked(SCRIPT_BYTES)
        && let Ok(script) = Script::arbitrary(&mut Unstructured::new(script))
    {
        load(script, file);
    }
});
