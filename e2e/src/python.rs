//! Python, and packages from PyPI, each in a folder of its own: those of different versions do not disturb one another.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};

use xtask::project::Project;
use xtask::{apt, command, setup};

const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// The pinned versions of numpy ask for no less than 3.11. Prints what a compiled package depends on.
const ASK: &str = "import sys, sysconfig, pip
assert sys.version_info >= (3, 11)
print(f'{sys.implementation.cache_tag}-{sysconfig.get_platform()}')";

/// A Python that has pip.
#[derive(Clone)]
pub struct Python {
    program: &'static str,
    /// Its version and the machine's architecture, as a part of a folder's name.
    tag: String,
}

/// Finds it, or installs it; tried once, however many ask.
pub fn ready() -> Result<Python> {
    static FOUND: OnceLock<Result<Python, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let install = || apt::install(&["python3", "python3-pip"]);
        let ready = setup::ready("python3, 3.11 or newer, with pip", find, install);
        ready.map_err(|error| format!("{error:#}"))
    });
    found.clone().map_err(anyhow::Error::msg)
}

/// The last is where apt puts it, which an older one may hide.
fn find() -> Option<Python> {
    ["python3", "python", "/usr/bin/python3"].into_iter().find_map(|program| {
        let tag = command::output(Command::new(program).args(["-c", ASK])).ok()?;
        Some(Python { program, tag: tag.trim().to_owned() })
    })
}

impl Python {
    /// The folder with what `arguments` has pip install, without what that depends on.
    pub fn installed(&self, project: &Project, name: &str, arguments: &[&OsStr]) -> Result<PathBuf> {
        let folder = project.tools.join(format!("pypi-{name}-{}", self.tag));
        let find = || folder.is_dir().then(|| folder.display().to_string());
        let install = || {
            fs::create_dir_all(&project.tools)?;
            // Moved to its place at the end: an installation cut off half way is never taken for one.
            let build = tempfile::Builder::new().prefix("pypi-").tempdir_in(&project.tools)?;
            let target = build.path().join("packages");
            let mut pip = Command::new(self.program);
            pip.args(["-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]);
            pip.arg("--target").arg(&target).args(arguments);
            command::quiet(&mut pip, INSTALL_LIMIT)?;
            fs::rename(&target, &folder).with_context(|| format!("cannot make {}", folder.display()))
        };
        setup::ready(&format!("{name} from PyPI"), find, install)?;
        Ok(folder)
    }

    /// Runs a program that finds the packages of these folders and no others.
    pub fn run(&self, program: &Path, packages: &[PathBuf]) -> Result<Command> {
        let mut python = Command::new(self.program);
        python.arg("-S").arg(program).env("PYTHONPATH", env::join_paths(packages)?);
        python.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
        Ok(python)
    }
}

impl fmt::Display for Python {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}, {}", self.program, self.tag)
    }
}
