//! `cargo xtask miri`: runs the tests of the core under Miri, an interpreter that detects undefined behaviour.
//!
//! The only unsafe code of this library maps files, which Miri does not support. The tests check how the core uses
//! dependencies that have unsafe code: hash maps, JSON, MessagePack, CBOR, the Zstandard decoder and the digests. The
//! unit tests of `CORE` run, except for `LONG`. Not covered are memory maps, sockets, the C library that compresses
//! Zstandard, and the SIMD code of the digests: under Miri their crates use the portable implementation.
//!
//! A run takes about six minutes.

use std::process::Command;

use anyhow::Result;

use crate::project::Project;
use crate::{command, setup};

/// All formats. Two of them depend on the C library that compresses Zstandard. It is built, but [`CORE`] does not call
/// it.
const FEATURES: &str = "formats";

/// The modules of the core, which read untrusted bytes and keep account of them.
const CORE: [&str; 15] = [
    "cache::",
    "codec::",
    "cursor::",
    "digest::",
    "dtype::",
    "format::",
    "index::",
    "long_array::",
    "name_index::",
    "plan::",
    "retry::",
    "split::",
    "values::",
    "window::",
    "zip::",
];

/// Tests that copy or digest tens of kilobytes up to megabytes. Some took minutes, the others process as much data.
/// Other tests run the same code with less data. Such tests of the formats are marked `ignore` under Miri.
const LONG: [&str; 14] = [
    "codec::byte_order::tests::the_output_does_not_depend_on_the_chunks",
    "codec::deflate::tests::emits_a_bomb_in_pieces",
    "codec::deflate::tests::the_output_does_not_depend_on_the_chunks",
    "codec::lz4::tests::the_output_does_not_depend_on_the_chunks",
    "codec::lz4::tests::damaged_blocks_fail_or_decode",
    "codec::lz4::tests::rejects_impossible_lengths",
    "codec::lz4_block::tests::emits_a_long_match_in_pieces",
    "codec::lz4_block::tests::the_output_does_not_depend_on_the_chunks",
    "codec::zstd::tests::the_output_does_not_depend_on_the_chunks",
    "codec::zstd::tests::damaged_frames_fail_or_decode",
    "codec::zstd::tests::data_without_a_stated_length",
    "codec::zstd::tests::rejects_frames_that_decode_to_a_different_length",
    "codec::zstd::tests::rejects_impossible_lengths",
    "name_index::tests::distinguishes_names_with_equal_hashes",
];

/// Writers of formats read no untrusted data. One compresses in C, which Miri cannot interpret.
const WRITERS: &str = "::write::";

/// The number of random inputs for each property. Interpreted code is about a hundred times slower, and these runs
/// look for undefined behaviour, not wrong results.
const RANDOM_CASES: &str = "2";

pub fn run(project: &Project) -> Result<()> {
    let find = || command::output(Command::new("cargo").args(["+nightly", "miri", "--version"])).ok();
    setup::ready("Miri, with a nightly compiler", || find().map(|version| version.trim().to_owned()), install)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["+nightly", "miri", "test", "--lib", "--no-default-features", "--features", FEATURES, "--target-dir"]);
    cargo.arg(project.target.join("miri")).arg("--").args(CORE).current_dir(&project.root);
    cargo.args(LONG.iter().chain([&WRITERS]).flat_map(|test| ["--skip", test]));
    // Lets proptest read its file of earlier failures.
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    // A fixed seed makes the duration of tests reproducible.
    cargo.env("PROPTEST_CASES", RANDOM_CASES).env("PROPTEST_RNG_SEED", "1");
    command::run(&mut cargo)
}

fn install() -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri,rust-src"]);
    command::run(&mut rustup)
}
