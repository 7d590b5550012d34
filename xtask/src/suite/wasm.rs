//! The steps that check what runs in browsers, without the end-to-end tests.

use std::process::Command;

use anyhow::Result;

use crate::linted::linted_in_suite;
use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{browser, command, package, wasm_target, workspace};

/// Checks the library as the npm package builds it, and the modules for signatures and certificates. Without this
/// feature the step `web` compiles it with clippy, and with `web-workers` the step `rust-app`.
pub(super) fn clippy_for_wasm(project: &Project) -> Result<()> {
    let mut library = wasm_target::ready(project)?.cargo()?;
    library.args(["clippy", "--target", TARGET, "--features", "js", "--lib", "--", "-D", "warnings"]);
    command::run(library.current_dir(&project.root))?;
    let mut modules = wasm_target::ready(project)?.cargo()?;
    modules.args(["clippy", "--target", TARGET, "--features", "module"]);
    modules.args(["--package", "weightstream-certificates", "--package", "weightstream-signatures"]);
    command::run(modules.args(["--lib", "--", "-D", "warnings"]).current_dir(&project.root))
}

pub(super) fn browser_tests(project: &Project) -> Result<()> {
    let runner = workspace::build(project, "xtask-test-runner")?;
    let chromedriver = browser::chromedriver()?;
    // The test runner leaves a temporary folder behind.
    let temporary = tempfile::tempdir()?;
    let mut test = wasm_target::ready(project)?.cargo()?;
    // Excludes the examples in the documentation, which run natively.
    test.args(["test", "--target", TARGET, "--lib", "--test", "*"]);
    test.current_dir(&project.root).env("TMPDIR", temporary.path());
    test.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", runner);
    // In a browser only, and not in Node.js.
    test.env("WASM_BINDGEN_TEST_ONLY_WEB", "1").env("CHROMEDRIVER", chromedriver);
    command::run(linted_in_suite(&mut test))
}

/// Compares the package with the platform in Node.js.
pub(super) fn standards(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    command::run(Command::new("node").arg("tests/standards/run.js").arg(package).current_dir(&project.root))
}
