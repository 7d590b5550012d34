//! Without what cargo tells the programs that it runs.
//!
//! `cargo run` gives its program the variables of the program's own package. Build scripts of dependencies watch them:
//! for the cargo that a chore runs they would be others than for the one that runs the chore, and each would build anew
//! what the other has built.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// What those variables begin with.
const OF_CARGO: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

const MANIFEST: &str = "CARGO_MANIFEST_DIR";

/// The repository, told to ourselves.
const ROOT: &str = "WEIGHTSTREAM_ROOT";

/// The repository; `None` where cargo has just started us, with those variables.
fn root() -> Option<PathBuf> {
    env::var_os(ROOT).filter(|_| env::var_os(MANIFEST).is_none()).map(PathBuf::from)
}

/// Does the same without those variables, and gives how it ended.
fn start_again() -> Result<ExitCode> {
    let manifest = env::var_os(MANIFEST).context("run this as `cargo xtask`")?;
    let manifest = PathBuf::from(manifest);
    let root = manifest.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    let root = root.context("there is no Cargo.lock above this crate")?.to_path_buf();
    let mut again = Command::new(env::current_exe()?);
    again.args(env::args_os().skip(1)).env(ROOT, root);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| OF_CARGO.iter().any(|start| name.starts_with(start))) {
            again.env_remove(name);
        }
    }
    let status = again.status().context("cannot start again")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs a program of the workspace with the root of the repository, and reports its error.
pub fn run(program: impl FnOnce(PathBuf) -> Result<()>) -> ExitCode {
    let outcome = match root() {
        Some(root) => program(root).map(|()| ExitCode::SUCCESS),
        None => start_again(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
