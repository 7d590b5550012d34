//! Removes environment variables that cargo sets for the programs that it runs.
//!
//! `cargo run` sets variables of the program's package. Build scripts of dependencies depend on them. If a task ran
//! cargo with these variables, it and the cargo that started the task would rebuild each other's dependencies.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// The prefixes of those variables.
const CARGO_PREFIXES: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

const MANIFEST: &str = "CARGO_MANIFEST_DIR";

/// Passes the root of the repository to the restarted program.
const ROOT: &str = "WEIGHTSTREAM_ROOT";

/// The root of the repository, `None` if cargo started this program directly, with those variables.
fn root() -> Option<PathBuf> {
    env::var_os(ROOT).filter(|_| env::var_os(MANIFEST).is_none()).map(PathBuf::from)
}

/// Restarts this program without those variables and returns its exit code.
fn restart() -> Result<ExitCode> {
    let manifest = env::var_os(MANIFEST).context("start this program with `cargo xtask`")?;
    let manifest = PathBuf::from(manifest);
    let root = manifest.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    let root = root.context("no Cargo.lock found above this crate")?.to_path_buf();
    let mut again = Command::new(env::current_exe()?);
    again.args(env::args_os().skip(1)).env(ROOT, root);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| CARGO_PREFIXES.iter().any(|start| name.starts_with(start))) {
            again.env_remove(name);
        }
    }
    let status = again.status().context("cannot restart the program")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs the main function of a program with the root of the repository, and prints its error.
pub fn run(program: impl FnOnce(PathBuf) -> Result<()>) -> ExitCode {
    let outcome = match root() {
        Some(root) => program(root).map(|()| ExitCode::SUCCESS),
        None => restart(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
