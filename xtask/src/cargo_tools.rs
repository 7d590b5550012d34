//! Tools from crates.io. Each version has its own folder, so that clones with different versions do not conflict.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::project::Project;
use crate::{command, setup};

/// Two slow cores need about four minutes for the largest tool.
const INSTALL_LIMIT: Duration = Duration::from_secs(1500);

const CARGO_FUZZ_VERSION: &str = "0.13.2";
const CARGO_DENY_VERSION: &str = "0.20.2";
const GECKODRIVER_VERSION: &str = "0.36.0";
const B3SUM_VERSION: &str = "1.8.7";

/// `www/docs/theme/index.hbs` replaces the template of this version.
const MDBOOK_VERSION: &str = "0.5.4";

/// Compiles a tool in a third of the time: cargo-deny takes 75 seconds of one core instead of 210.
const UNOPTIMISED: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
];

/// The folder with `cargo-fuzz`.
pub fn cargo_fuzz(project: &Project) -> Result<PathBuf> {
    installed(project, "cargo-fuzz", "cargo-fuzz", CARGO_FUZZ_VERSION)
}

/// The folder with `cargo-deny`. It runs for a second or two, also unoptimised.
pub fn cargo_deny(project: &Project) -> Result<PathBuf> {
    installed_with(project, "cargo-deny", "cargo-deny", CARGO_DENY_VERSION, &[], &UNOPTIMISED)
}

/// The folder with `geckodriver`, the WebDriver server of Firefox. It passes on small messages.
pub fn geckodriver(project: &Project) -> Result<PathBuf> {
    installed_with(project, "geckodriver", "geckodriver", GECKODRIVER_VERSION, &[], &UNOPTIMISED)
}

/// The folder with `b3sum`, with which `verify` is compared.
pub fn b3sum(project: &Project) -> Result<PathBuf> {
    installed(project, "b3sum", "b3sum", B3SUM_VERSION)
}

/// The folder with `mdbook`, which builds the documentation site. It has the search, but no server.
pub fn mdbook(project: &Project) -> Result<PathBuf> {
    let features = ["--no-default-features", "--features", "search"];
    installed_with(project, "mdbook", "mdbook", MDBOOK_VERSION, &features, &UNOPTIMISED)
}

fn installed(project: &Project, package: &str, program: &str, version: &str) -> Result<PathBuf> {
    installed_with(project, package, program, version, &[], &[])
}

/// Installs a tool with more arguments of `cargo install`, and with these environment variables set.
fn installed_with(
    project: &Project,
    package: &str,
    program: &str,
    version: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<PathBuf> {
    let folder = project.tools.join(format!("{package}-{version}"));
    let bin = folder.join("bin");
    let find = || {
        let version_text = command::output(Command::new(bin.join(program)).arg("--version")).ok()?;
        let stated = version_text.lines().next()?.strip_prefix(program)?.trim_start_matches([' ', 'v']);
        (stated == version).then(|| bin.display().to_string())
    };
    let install = || {
        let build = folder.join("build");
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--locked", package, "--version", version, "--root"]).arg(&folder).args(arguments);
        // A separate build folder: with a shared one, concurrent installs would wait for its lock.
        cargo.arg("--target-dir").arg(&build);
        // The user's compiler flags do not apply to these tools.
        cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
        cargo.envs(variables.iter().copied());
        command::quiet(&mut cargo, INSTALL_LIMIT)?;
        Ok(fs::remove_dir_all(&build)?)
    };
    setup::ready(&format!("{program} {version}"), find, install)?;
    Ok(bin)
}
