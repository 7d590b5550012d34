//! The crates that connect weightstream with candle and burn: a workspace of its own, in `bridges/`.

use std::process::Command;

use anyhow::Result;

use crate::linted::linted;
use crate::project::Project;
use crate::{command, packaged, workspace};

/// What is compiled natively. The example of candle runs only in a browser: natively, its models would take a minute.
const NATIVE: [&str; 3] = ["weightstream-burn", "weightstream-candle", "burn-example"];

/// Checks formatting and lints, runs the tests, builds a project that depends on the packages, and runs the examples in
/// a browser. The crates have no code of their own for wasm32, so only the examples compile them for it, because candle
/// and burn take minutes.
pub fn test(project: &Project) -> Result<()> {
    let folder = project.root.join("bridges");
    command::run(Command::new("cargo").args(["fmt", "--all", "--check"]).current_dir(&folder))?;
    // Cargo runs the examples in documentation only alone.
    for targets in ["--all-targets", "--doc"] {
        let mut test = Command::new("cargo");
        test.args(["test", "--locked", "--no-fail-fast", targets]).current_dir(&folder);
        test.args(NATIVE.iter().flat_map(|name| ["--package", name]));
        command::run(linted(&mut test))?;
    }
    packaged::test(project)?;
    workspace::run(project, "e2e", &["bridges".to_owned()])
}
