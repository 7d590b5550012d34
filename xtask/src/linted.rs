//! In the test suite, clippy compiles the crates of the workspace. `cargo clippy` would compile all dependencies a
//! second time, only to check what uses them.

use std::env;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

/// Tells this program and those that it starts that they belong to the test suite.
const VARIABLE: &str = "WEIGHTSTREAM_LINTS";

/// Makes clippy compile the crates of the workspace, and warnings errors. It optimises less, so no such crate may be
/// part of the npm package.
pub fn linted(cargo: &mut Command) -> &mut Command {
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", "-Dwarnings")
}

/// The same in the test suite only: cargo would compile everything again if a step of the suite used another compiler.
pub fn linted_in_suite(cargo: &mut Command) -> &mut Command {
    if is_in_suite() { linted(cargo) } else { cargo }
}

/// Whether this program belongs to the test suite.
pub fn is_in_suite() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Runs this program again, as part of the test suite.
pub fn restart_in_suite() -> Result<ExitStatus> {
    let mut again = Command::new(env::current_exe()?);
    again.args(env::args_os().skip(1)).env(VARIABLE, "1").status().context("cannot restart the program")
}
