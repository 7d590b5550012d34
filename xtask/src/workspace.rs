//! Other programs of the workspace, which are compiled only when they are needed.

use std::process::Command;

use anyhow::Result;

use crate::command;
use crate::project::Project;

/// Compiles a program of the workspace, if necessary, and runs it.
pub fn run(project: &Project, package: &str, arguments: &[String]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--package", package, "--"]).args(arguments);
    command::run(cargo.current_dir(&project.root))
}
