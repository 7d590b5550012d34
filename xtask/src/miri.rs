//! `cargo xtask miri`: the tests of the core under Miri, an interpreter that sees undefined behaviour where a processor
//! goes on.
//!
//! We have no unsafe code but that of the map, which Miri cannot make. What is looked at here is what the core hands to
//! crates that have some: maps and JSON, MessagePack and CBOR, Zstandard's decoder, the digests. Of it run the unit
//! tests of `CORE` without `LONG`. Not covered are maps and sockets, the C library that writes Zstandard, and what
//! the digests do with vectors: under Miri their crates take the code that every processor has.
//!
//! It takes some six minutes.

use std::process::Command;

use anyhow::Result;

use crate::project::Project;
use crate::{command, setup};

/// All formats. The C that Zstandard is written with comes with two of them: it is built, and none of [`CORE`] calls
/// it.
const FEATURES: &str = "formats";

/// The modules of the core: what reads untrusted bytes, and what keeps count of them.
const CORE: [&str; 12] = [
    "cache::",
    "codec::",
    "cursor::",
    "dtype::",
    "format::",
    "index::",
    "long_array::",
    "names::",
    "plan::",
    "retry::",
    "split::",
    "window::",
];

/// Tests that move or digest tens of kilobytes up to megabytes: some were seen to take minutes, the others move as
/// much, for code that the rest runs with less. Those of the formats are marked `ignore` under Miri where they are.
const LONG: [&str; 12] = [
    "codec::byte_order::tests::any_split_into_chunks",
    "codec::crc_simd::tests::gives_what_tables_give",
    "codec::lz4::tests::any_split_into_chunks",
    "codec::lz4::tests::damage_is_an_error",
    "codec::lz4::tests::refuses_lengths",
    "codec::lz4_block::tests::any_split_into_chunks",
    "codec::zstd::tests::any_split_into_chunks",
    "codec::zstd::tests::damage_is_an_error",
    "codec::zstd::tests::data_of_unstated_length",
    "codec::zstd::tests::refuses_frames_that_decode_to_another_length",
    "codec::zstd::tests::refuses_lengths",
    "names::tests::names_with_one_hash",
];

/// Writers of formats, which read nothing that is not trusted: one compresses in C, which Miri cannot interpret.
const WRITERS: &str = "::write::";

/// Interpreted code is some hundred times slower: a few random inputs of each property are enough here, where they are
/// for what the code does and not for what it gives.
const RANDOM_CASES: &str = "2";

pub fn run(project: &Project) -> Result<()> {
    let find = || command::output(Command::new("cargo").args(["+nightly", "miri", "--version"])).ok();
    setup::ready("Miri, with a nightly compiler", || find().map(|version| version.trim().to_owned()), install)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["+nightly", "miri", "test", "--lib", "--no-default-features", "--features", FEATURES, "--target-dir"]);
    cargo.arg(project.target.join("miri")).arg("--").args(CORE).current_dir(&project.root);
    cargo.args(LONG.iter().chain([&WRITERS]).flat_map(|test| ["--skip", test]));
    // Where proptest looks for cases that failed before is no concern of Miri's.
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    // The same inputs each time: what takes a second does so the next time, too.
    cargo.env("PROPTEST_CASES", RANDOM_CASES).env("PROPTEST_RNG_SEED", "1");
    command::run(&mut cargo)
}

fn install() -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri,rust-src"]);
    command::run(&mut rustup)
}
