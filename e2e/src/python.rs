//! Python and packages from PyPI. Each package has its own folder, so that different versions do not conflict.

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

/// Checks the version of Python: the pinned numpy requires 3.11. Prints the tag that compiled packages depend on.
const PROBE_SCRIPT: &str = "import sys, sysconfig, pip
assert sys.version_info >= (3, 11)
print(f'{sys.implementation.cache_tag}-{sysconfig.get_platform()}')";

/// A Python interpreter with pip.
#[derive(Clone)]
pub struct Python {
    program: &'static str,
    /// The version of Python and the architecture of the machine, as part of folder names.
    tag: String,
}

/// Finds or installs Python. Later calls return the result of the first.
pub fn ready() -> Result<Python> {
    static FOUND: OnceLock<Result<Python, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let install = || apt::install(&["python3", "python3-pip"]);
        let ready = setup::ready("python3, 3.11 or newer, with pip", find, install);
        ready.map_err(|error| format!("{error:#}"))
    });
    found.clone().map_err(anyhow::Error::msg)
}

/// The last path is where apt installs Python, in case an older one comes first in `PATH`.
fn find() -> Option<Python> {
    ["python3", "python", "/usr/bin/python3"].into_iter().find_map(|program| {
        let tag = command::output(Command::new(program).args(["-c", PROBE_SCRIPT])).ok()?;
        Some(Python { program, tag: tag.trim().to_owned() })
    })
}

impl Python {
    /// Installs packages with pip, without their dependencies. Returns their folder.
    pub fn installed(&self, project: &Project, name: &str, arguments: &[&OsStr]) -> Result<PathBuf> {
        let folder = project.tools.join(format!("pypi-{name}-{}", self.tag));
        let find = || folder.is_dir().then(|| folder.display().to_string());
        let install = || {
            fs::create_dir_all(&project.tools)?;
            // Moved to the final path at the end, so that an interrupted installation is never used.
            let build = tempfile::Builder::new().prefix("pypi-").tempdir_in(&project.tools)?;
            let target = build.path().join("packages");
            let mut pip = Command::new(self.program);
            pip.args(["-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]);
            pip.arg("--target").arg(&target).args(arguments);
            command::quiet(&mut pip, INSTALL_LIMIT)?;
            fs::rename(&target, &folder).with_context(|| format!("cannot create {}", folder.display()))
        };
        setup::ready(&format!("{name} from PyPI"), find, install)?;
        Ok(folder)
    }

    /// The command that runs a program with only the packages of these folders.
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
