//! The crates that connect weightstream with candle and burn: a workspace of its own, in `bridges/`.

use std::process::Command;

use anyhow::Result;

use crate::project::Project;
use crate::{command, packaged, workspace};

/// Checks formatting and lints, runs the tests, builds a project that depends on the packages, and runs the examples in
/// a browser. The crates have no code of their own for wasm32, so only the examples compile them for it, because candle
/// and burn take minutes.
pub fn test(project: &Project) -> Result<()> {
    let folder = project.root.join("bridges");
    command::run(Command::new("cargo").args(["fmt", "--all", "--check"]).current_dir(&folder))?;
    let mut test = Command::new("cargo");
    test.args(["test", "--locked", "--workspace", "--all-targets", "--no-fail-fast"]).current_dir(&folder);
    command::run(linted(&mut test))?;
    let mut test = Command::new("cargo");
    test.args(["test", "--locked", "--workspace", "--doc", "--no-fail-fast"]).current_dir(&folder);
    command::run(linted(&mut test))?;
    packaged::test(project)?;
    workspace::run(project, "e2e", &["bridges".to_owned()])
}

/// Lets clippy compile the crates of the workspace, with warnings as errors. This is what `cargo clippy` does too, but
/// that compiles all dependencies without their code, and the tests would compile them a second time.
fn linted(cargo: &mut Command) -> &mut Command {
    // The separator of the arguments in this variable is that of cargo-clippy.
    cargo
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}
