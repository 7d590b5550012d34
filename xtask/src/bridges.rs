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
    let cargo = |arguments: &[&str]| command::run(Command::new("cargo").args(arguments).current_dir(&folder));
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["test", "--locked", "--workspace", "--no-fail-fast"])?;
    packaged::test(project)?;
    workspace::run(project, "e2e", &["bridges".to_owned()])
}
