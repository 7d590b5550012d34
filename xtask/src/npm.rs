//! Installs Node.js, and npm packages in the versions of a lock file.

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

/// Installs the packages of the manifests in the folder `pins` of the repository. Returns the `node_modules` folder.
/// `files` are the manifests and the files that they reference.
pub fn installed(project: &Project, what: &str, pins: &str, files: &[&str]) -> Result<PathBuf> {
    node()?;
    let pins = project.root.join(pins);
    let fingerprint = setup::fingerprint(files.iter().map(|name| pins.join(name)))?;
    // Each set of versions has its own folder, so that clones with different versions do not conflict.
    let folder = project.tools.join(format!("npm-{fingerprint}"));
    let find = || folder.is_dir().then(|| folder.display().to_string());
    let install = || {
        fs::create_dir_all(&project.tools)?;
        // Installed in a temporary folder and moved at the end, so that an interrupted installation is never used.
        let build = tempfile::Builder::new().prefix("npm-").tempdir_in(&project.tools)?;
        for name in files {
            fs::create_dir_all(build.path().join(name).with_file_name(""))?;
            fs::copy(pins.join(name), build.path().join(name))?;
        }
        // No package needs an install script.
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(build.path());
        command::quiet(&mut npm, INSTALL_LIMIT)?;
        match fs::rename(build.path(), &folder) {
            Err(_) if folder.is_dir() => Ok(()), // another step has installed the same meanwhile
            renamed => Ok(renamed?),
        }
    };
    setup::ready(what, find, install)?;
    Ok(folder.join("node_modules"))
}

/// The command that runs a program of an npm package.
pub fn tool(node_modules: &Path, name: &str) -> Command {
    // Runs node instead of the `.bin` links, which are batch files on Windows.
    let mut command = Command::new("node");
    command.arg(node_modules.join(name));
    command
}

/// The oldest version that Vite supports.
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
