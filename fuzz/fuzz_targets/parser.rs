//! The parser of the format that the environment variable `FUZZ_FORMAT` names, as `cargo xtask fuzz <format>` sets it;
//! without it, or for `manifest`, of the format that the first bytes belong to.
#![no_main]

use std::sync::LazyLock;
use weightstream::format::{Format, formats};

static FORMAT: LazyLock<Option<&'static Format>> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_FORMAT").ok().filter(|name| name != "manifest")?;
    let format = formats().iter().find(|format| format.name == name);
    Some(format.unwrap_or_else(|| panic!("there is no format {name}")))
});

libfuzzer_sys::fuzz_target!(|file: &[u8]| weightstream_fuzz::parser::parse(*FORMAT, file));
