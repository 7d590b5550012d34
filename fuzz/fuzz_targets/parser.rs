//! The parser of the format in the environment variable `FUZZ_FORMAT`, which `cargo xtask fuzz <format>` sets. If the
//! variable is missing or `manifest`, the format is detected from the first bytes.
#![no_main]

use std::sync::LazyLock;
use weightstream::internals::format::{Format, formats};

static FORMAT: LazyLock<Option<&'static Format>> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_FORMAT").ok().filter(|name| name != "manifest")?;
    let format = formats().iter().find(|format| format.name == name);
    Some(format.unwrap_or_else(|| panic!("unknown format {name}")))
});

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse(*FORMAT, file));
