//! `cargo xtask miri`: the tests of the core under Miri, an interpreter that sees undefined behaviour where a processor goes on.

use std::process::Command;

use anyhow::Result;

use crate::project::Project;
use crate::{command, setup};

/// What Miri can run: no maps, no sockets, and none of the C that Zstandard is written with.
const FEATURES: &str = "aero,apr,burnpack,embd,gguf,safetensors,ztensor";

/// The modules of the core: what reads untrusted bytes, and what keeps count of them.
const CORE: [&str; 10] =
    ["cache::", "codec::", "cursor::", "dtype::", "format::", "index::", "plan::", "retry::", "split::", "window::"];

/// Interpreted code is some hundred times slower: a few random inputs of each property are enough here, where they are for
/// what the code does and not for what it gives.
const RANDOM_CASES: &str = "2";

pub(crate) fn run(project: &Project) -> Result<()> {
    let find = || command::output(Command::new("cargo").args(["+nightly", "miri", "--version"])).ok();
    setup::ready("Miri, with a nightly compiler", || find().map(|version| version.trim().to_owned()), install)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["+nightly", "miri", "test", "--lib", "--no-default-features", "--features", FEATURES, "--target-dir"]);
    cargo.arg(project.target.join("miri")).arg("--").args(CORE).current_dir(&project.root);
    // Where proptest looks for cases that failed before is no concern of Miri's.
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", RANDOM_CASES);
    command::run(&mut cargo)
}

fn install() -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri,rust-src"]);
    command::run(&mut rustup)
}
