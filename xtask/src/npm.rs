//! Node, and what comes from npm in the versions that a lock file pins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::project::Project;
use crate::{apt, command, setup};

const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// The `node_modules` folder with the tools that build and check the package.
pub fn ready(project: &Project) -> Result<PathBuf> {
    installed(project, "npm tools", "tests/package", &["package.json", "package-lock.json", ".npmrc"])
}

/// The `node_modules` folder of what the manifests in a folder of the repository pin, with the files beside them that
/// they name.
pub fn installed(project: &Project, what: &str, pins: &str, files: &[&str]) -> Result<PathBuf> {
    node()?;
    let pins = project.root.join(pins);
    let fingerprint = setup::fingerprint(files.iter().map(|name| pins.join(name)))?;
    // A folder for each set of pins: clones with other versions do not disturb one another.
    let folder = project.tools.join(format!("npm-{fingerprint}"));
    let find = || folder.is_dir().then(|| folder.display().to_string());
    let install = || {
        fs::create_dir_all(&project.tools)?;
        // Installed beside its place and moved there at the end: an installation cut off half way is never taken for
        // one.
        let build = tempfile::Builder::new().prefix("npm-").tempdir_in(&project.tools)?;
        for name in files {
            fs::create_dir_all(build.path().join(name).with_file_name(""))?;
            fs::copy(pins.join(name), build.path().join(name))?;
        }
        // Nothing of it needs an install script, so none is run.
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(build.path());
        command::quiet(&mut npm, INSTALL_LIMIT)?;
        Ok(fs::rename(build.path(), &folder)?)
    };
    setup::ready(what, find, install)?;
    Ok(folder.join("node_modules"))
}

/// Runs a program that one of the npm packages brings.
pub fn tool(node_modules: &Path, name: &str) -> Command {
    // Through node rather than the `.bin` links, which are batch files on Windows.
    let mut command = Command::new("node");
    command.arg(node_modules.join(name));
    command
}

/// Vite asks for no less than this.
const OLDEST_NODE: u32 = 18;

fn node() -> Result<String> {
    let find = || {
        let version = command::output(Command::new("node").arg("--version")).ok()?;
        let major: u32 = version.strip_prefix('v')?.split('.').next()?.parse().ok()?;
        let npm = command::in_path("npm")?;
        (major >= OLDEST_NODE).then(|| format!("{}, {}", version.trim(), npm.display()))
    };
    setup::ready(&format!("node, {OLDEST_NODE} or newer"), find, || apt::install(&["nodejs", "npm"]))
}
