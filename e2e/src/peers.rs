//! The formats' own tools, from their package registries. For each tool, a small program in `tests/interop/` writes
//! files of random tensors with it and lists the contents of files that it reads. One program implements a layout that
//! no tool has.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::listing::Listing;
use crate::python::{self, Python};
use crate::targets::{self, Target};
use xtask::project::Project;
use xtask::{command, setup};

/// The time limit of the build. Two slow cores need about three minutes.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);

/// A tool and what it can read.
pub struct Peer {
    /// The format of the tool.
    pub format: &'static str,
    /// The name of the tool's package, or what the program of the tests consists of.
    pub package: &'static str,
    origin: Origin,
    pub reads: Reads,
}

/// The package registry of a tool.
enum Origin {
    /// crates.io, with the version in the lock file of `tests/interop/peers`.
    Crate,
    /// PyPI, with the program that uses the package.
    PyPi { version: &'static str, program: &'static str },
    /// A program of the tests, which uses only packages that are no tools of the format.
    Tests { program: &'static str },
}

/// Which files written by weightstream a tool can read.
pub enum Reads {
    /// Files of this format. `cannot` returns a reason for a model that the tool cannot read.
    Format { target: &'static Target, cannot: fn(&Listing) -> Option<&'static str> },
    /// Graphs that ONNX models are split into.
    Graphs,
    /// Nothing, for this reason.
    Nothing(&'static str),
}

pub const PEERS: &[Peer] = &[
    Peer {
        format: "apr",
        package: "apr-format",
        origin: Origin::Crate,
        reads: Reads::Nothing("the tool reads only its own layout, weightstream writes that of the specification"),
    },
    Peer {
        format: "burnpack",
        package: "burn-pack",
        origin: Origin::Crate,
        reads: Reads::Format {
            target: &targets::BURNPACK,
            cannot: |source| {
                targets::has_burn_scheme_with(source, "level").then_some("0.22 drops the scale parameters of 0.21")
            },
        },
    },
    Peer {
        format: "burnpack",
        package: "burn-store",
        origin: Origin::Crate,
        reads: Reads::Format {
            target: &targets::BURNPACK,
            cannot: |source| {
                targets::has_burn_scheme_with(source, "block").then_some("0.21 does not support the schemes of 0.22")
            },
        },
    },
    Peer {
        format: "ztensor",
        package: "ztensor",
        origin: Origin::Crate,
        reads: Reads::Format { target: &targets::ZTENSOR, cannot: |_| None },
    },
    Peer {
        format: "ztensor",
        package: "ztensor",
        origin: Origin::PyPi { version: "1.0.1", program: "peer_ztensor_1_0.py" },
        reads: Reads::Format { target: &targets::ZTENSOR_1_0, cannot: |_| None },
    },
    Peer {
        format: "ztensor",
        package: "ztensor",
        origin: Origin::PyPi { version: "1.1.1", program: "peer_ztensor_1_0.py" },
        reads: Reads::Format { target: &targets::ZTENSOR, cannot: targets::beyond_ztensor_1_1 },
    },
    Peer {
        format: "ztensor",
        package: "ztensor",
        origin: Origin::PyPi { version: "1.2.3", program: "peer_ztensor.py" },
        reads: Reads::Format { target: &targets::ZTENSOR, cannot: |_| None },
    },
    Peer {
        format: "ztensor",
        package: "cbor2, numpy and zstandard",
        origin: Origin::Tests { program: "peer_byte_streams.py" },
        reads: Reads::Format { target: &targets::ZTENSOR_SPLIT, cannot: |_| None },
    },
    Peer {
        format: "safetensors",
        package: "safetensors",
        origin: Origin::PyPi { version: "0.8.0", program: "peer_safetensors.py" },
        reads: Reads::Format { target: &targets::SAFETENSORS, cannot: |_| None },
    },
    Peer {
        format: "gguf",
        package: "gguf",
        origin: Origin::PyPi { version: "0.19.0", program: "peer_gguf.py" },
        reads: Reads::Format { target: &targets::GGUF, cannot: targets::beyond_gguf_reader },
    },
    Peer {
        format: "onnx",
        package: "onnx",
        origin: Origin::PyPi { version: "1.23.2", program: "peer_onnx.py" },
        reads: Reads::Graphs,
    },
];

/// The names of the programs for tools from crates.io.
const CRATES: [&str; 4] = ["peer-apr-format", "peer-burn-pack", "peer-burn-store", "peer-ztensor"];

impl Peer {
    /// Its package, version and registry.
    pub fn name(&self, project: &Project) -> Result<String> {
        Ok(match self.origin {
            Origin::Crate => {
                format!("{} {}", self.package, locked_version(&peers(project), self.package)?)
            }
            Origin::PyPi { version, .. } => format!("PyPI {} {version}", self.package),
            Origin::Tests { .. } => self.package.to_owned(),
        })
    }

    /// Installs the tool if it is missing.
    pub fn ready(&self, project: &Project) -> Result<Program> {
        match self.origin {
            Origin::Crate => {
                Ok(Program::Binary(crates(project)?.join(program_name(&format!("peer-{}", self.package)))))
            }
            Origin::PyPi { version, program } => {
                let python = python::ready()?;
                let package = format!("{}=={version}", self.package);
                let name = format!("{}-{version}", self.package);
                let own = python.installed(project, &name, &[OsStr::new(&package)])?;
                python_program(project, python, program, vec![own])
            }
            Origin::Tests { program } => python_program(project, python::ready()?, program, Vec::new()),
        }
    }
}

/// The version of a package that a workspace's lock file pins.
fn locked_version(workspace: &Path, package: &str) -> Result<String> {
    let lock = fs::read_to_string(workspace.join("Cargo.lock"))?;
    let name = format!("name = \"{package}\"");
    let mut after = lock.lines().skip_while(|line| *line != name);
    let version = after.nth(1).and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    Ok(version.with_context(|| format!("Cargo.lock has no version of {package}"))?.to_owned())
}

/// The folder with the programs for tools from crates.io. They are rebuilt when any of their source files changes.
fn crates(project: &Project) -> Result<PathBuf> {
    let workspace = peers(project);
    let folder = project.tools.join(format!("interop-{}", setup::fingerprint(files_below(&workspace)?)?));
    let find = || folder.is_dir().then(|| folder.display().to_string());
    let install = || {
        fs::create_dir_all(&project.tools)?;
        // The build takes half a gigabyte; only the programs are kept.
        let build = tempfile::Builder::new().prefix("interop-").tempdir_in(&project.tools)?;
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--locked", "--workspace", "--target-dir"]).arg(build.path()).current_dir(&workspace);
        // The user's compiler flags do not apply to these tools.
        cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
        command::quiet(&mut cargo, BUILD_LIMIT)?;
        let programs = build.path().join("programs");
        fs::create_dir(&programs)?;
        for name in CRATES.map(program_name) {
            fs::rename(build.path().join("debug").join(&name), programs.join(&name))?;
        }
        fs::rename(programs, &folder).with_context(|| format!("cannot create {}", folder.display()))
    };
    setup::ready("the formats' tools from crates.io", find, install)?;
    Ok(folder)
}

fn peers(project: &Project) -> PathBuf {
    project.root.join("tests/interop/peers")
}

fn program_name(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}

/// All files below a folder, sorted.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

/// A program in `tests/interop/python`, which uses these packages and those that all programs share.
fn python_program(project: &Project, python: Python, program: &str, mut packages: Vec<PathBuf>) -> Result<Program> {
    let folder = project.root.join("tests/interop/python");
    packages.push(support(project, &python, &folder.join("requirements.txt"))?);
    Ok(Program::Python { python, script: folder.join(program), packages })
}

/// The folder with the dependencies of the packages.
fn support(project: &Project, python: &Python, requirements: &Path) -> Result<PathBuf> {
    let name = format!("support-{}", setup::fingerprint([requirements.to_owned()])?);
    python.installed(project, &name, &[OsStr::new("--requirement"), requirements.as_os_str()])
}

/// An installed tool.
pub enum Program {
    Binary(PathBuf),
    Python { python: Python, script: PathBuf, packages: Vec<PathBuf> },
}

impl Program {
    /// Lets the tool write its files to a folder. Returns each file with its contents.
    pub fn write(&self, seed: u64, folder: &Path) -> Result<Vec<(PathBuf, Listing)>> {
        command::output(self.command()?.arg("write").arg(seed.to_string()).arg(folder))?;
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let expected = entry?.path();
            let path = expected.to_str().context("a file name is not UTF-8")?;
            if let Some(file) = path.strip_suffix(".expected.json") {
                files.push((PathBuf::from(file), Listing::parse(&fs::read_to_string(&expected)?)?));
            }
        }
        ensure!(!files.is_empty(), "the tool wrote no file");
        files.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(files)
    }

    /// Lets the tool read a file.
    pub fn read(&self, file: &Path) -> Result<Listing> {
        Listing::parse(&command::output(self.command()?.arg("read").arg(file))?)
    }

    /// Lets the tool compare a model with the graph that it was split into.
    pub fn compare(&self, how: &str, original: &Path, graph: &Path) -> Result<()> {
        command::output(self.command()?.arg(how).arg(original).arg(graph)).map(drop)
    }

    fn command(&self) -> Result<Command> {
        match self {
            Program::Binary(path) => Ok(Command::new(path)),
            Program::Python { python, script, packages } => python.run(script, packages),
        }
    }
}
