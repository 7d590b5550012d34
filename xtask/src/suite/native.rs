//! The steps that cargo runs natively.

use std::process::Command;

use anyhow::{Context, Result};

use crate::linted::linted_in_suite;
use crate::project::Project;
use crate::{cargo_tools, command, rustdoc};

/// The targets with native tests, besides those of the folder `tests`.
const TEST_TARGETS: [&str; 3] = ["--lib", "--bins", "--examples"];

pub(super) fn formatting(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["fmt", "--all", "--check"]))?;
    // A separate workspace.
    command::run(cargo(project).args(["fmt", "--all", "--check"]).current_dir(project.root.join("tests/interop/peers")))
}

/// Each workspace has a lock file of its own, and a dependency of the library is in all of them.
pub(super) fn lock_files(project: &Project) -> Result<()> {
    for workspace in ["", "bridges", "fuzz", "tests/interop/peers"] {
        let mut update = Command::new("cargo");
        update.args(["update", "--quiet", "--workspace", "--locked"]).current_dir(project.root.join(workspace));
        let advice = || format!("`cargo update --workspace` in {workspace:?} of the repository updates its lock file");
        command::run(&mut update).with_context(advice)?;
    }
    Ok(())
}

/// Advisories are not checked, see deny.toml.
pub(super) fn dependencies(project: &Project) -> Result<()> {
    let program = cargo_tools::cargo_deny(project)?.join("cargo-deny");
    for workspace in [project.root.clone(), project.root.join("bridges")] {
        let mut deny = Command::new(&program);
        deny.arg("--locked").arg("--config").arg(project.root.join("deny.toml"));
        command::run(deny.args(["check", "bans", "licenses", "sources"]).current_dir(workspace))?;
    }
    Ok(())
}

/// Compiles what the parallel steps run. Otherwise, the first of them that compiles would block the others: a build
/// folder can be used by one compiler at a time.
pub(super) fn compile(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["build", "--workspace", "--bins"]))?;
    let mut tests = cargo(project);
    tests.args(["test", "--workspace", "--no-run", "--benches"]).args(TEST_TARGETS);
    command::run(tests.args(["--test", "*"]))
}

/// All native tests but those of `tests/hostile`, whose name is the only one that begins with an h.
pub(super) fn native_tests(project: &Project) -> Result<()> {
    let mut tests = cargo(project);
    tests.args(["test", "--workspace", "--no-fail-fast"]).args(TEST_TARGETS);
    command::run(tests.args(["--test", "[!h]*"]))?;
    command::run(cargo(project).args(["test", "--workspace", "--no-fail-fast", "--doc"]))
}

/// These tests measure time and memory, so they run one after another.
pub(super) fn hostile_tests(project: &Project) -> Result<()> {
    // With `--workspace`, dependencies have the features with which they are compiled already.
    command::run(cargo(project).args(["test", "--workspace", "--test", "hostile"]))
}

pub(super) fn documentation(project: &Project) -> Result<()> {
    rustdoc::published(project)?;
    rustdoc::internal(project)
}

fn cargo(project: &Project) -> Command {
    let mut cargo = Command::new("cargo");
    linted_in_suite(&mut cargo).current_dir(&project.root);
    cargo
}
