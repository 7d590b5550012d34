//! The crates that connect weightstream with candle and burn: a workspace of its own, in `bridges/`.

use std::process::Command;

use anyhow::Result;

use crate::project::Project;
use crate::wasm_target::{self, TARGET};
use crate::{command, packaged, workspace};

/// Checks formatting, lints and tests natively and for the browser, builds a project that depends on the packages, and
/// runs the examples in a browser.
pub fn test(project: &Project) -> Result<()> {
    let folder = project.root.join("bridges");
    let cargo = |arguments: &[&str]| command::run(Command::new("cargo").args(arguments).current_dir(&folder));
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    cargo(&["test", "--locked", "--workspace", "--no-fail-fast"])?;
    let mut wasm = wasm_target::ready(project)?.cargo()?;
    wasm.args(["clippy", "--locked", "--workspace", "--lib", "--target", TARGET, "--", "-D", "warnings"]);
    command::run(wasm.current_dir(&folder))?;
    packaged::test(project)?;
    workspace::run(project, "e2e", &["bridges".to_owned()])
}
