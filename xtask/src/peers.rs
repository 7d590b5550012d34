//! The formats' own tools, from their registries, each behind a small program of `tests/interop/` that writes files of
//! random tensors with it and tells what it reads.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::listing::Listing;
use crate::project::Project;
use crate::python::{self, Python};
use crate::{command, setup};

/// A tool and what can be tried with it.
pub(crate) struct Peer {
    /// The format that it is the tool of.
    pub(crate) format: &'static str,
    /// As its registry calls it.
    pub(crate) package: &'static str,
    origin: Origin,
    pub(crate) reads: Reads,
}

/// Where it comes from.
enum Origin {
    /// PyPI, with the program that uses it.
    PyPi { version: &'static str, program: &'static str },
}

/// What it reads of what weightstream writes.
pub(crate) enum Reads {
    /// What `weightstream convert` calls by this name.
    Format(&'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

pub(crate) const PEERS: &[Peer] = &[Peer {
    format: "safetensors",
    package: "safetensors",
    origin: Origin::PyPi { version: "0.8.0", program: "peer_safetensors.py" },
    reads: Reads::Nothing("weightstream does not write it yet"),
}];

impl Peer {
    /// Its package and version.
    pub(crate) fn name(&self) -> String {
        match self.origin {
            Origin::PyPi { version, .. } => format!("{} {version}, PyPI", self.package),
        }
    }

    /// Installs it where it is missing.
    pub(crate) fn ready(&self, project: &Project) -> Result<Program> {
        let folder = project.root.join("tests/interop");
        match self.origin {
            Origin::PyPi { version, program } => {
                let folder = folder.join("python");
                let python = python::ready()?;
                let package = format!("{}=={version}", self.package);
                let name = format!("{}-{version}", self.package);
                let own = python.installed(project, &name, &[OsStr::new(&package)])?;
                let shared = support(project, &python, &folder.join("requirements.txt"))?;
                Ok(Program::Python { python, script: folder.join(program), packages: vec![own, shared] })
            }
        }
    }
}

/// The folder with what the packages depend on.
fn support(project: &Project, python: &Python, requirements: &Path) -> Result<PathBuf> {
    let name = format!("support-{}", setup::fingerprint([requirements.to_owned()])?);
    python.installed(project, &name, &[OsStr::new("--requirement"), requirements.as_os_str()])
}

/// A tool that is there.
pub(crate) enum Program {
    Python { python: Python, script: PathBuf, packages: Vec<PathBuf> },
}

impl Program {
    /// Has it write its files into a folder; gives each with what is in it.
    pub(crate) fn write(&self, seed: u64, folder: &Path) -> Result<Vec<(PathBuf, Listing)>> {
        command::output(self.command()?.arg("write").arg(seed.to_string()).arg(folder))?;
        let mut files = Vec::new();
        for entry in folder.read_dir()? {
            let expected = entry?.path();
            let path = expected.to_str().context("a file's name is no UTF-8")?;
            if let Some(file) = path.strip_suffix(".expected.json") {
                files.push((PathBuf::from(file), Listing::parse(&std::fs::read_to_string(&expected)?)?));
            }
        }
        files.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(files)
    }

    /// What it finds in a file.
    pub(crate) fn read(&self, file: &Path) -> Result<Listing> {
        Listing::parse(&command::output(self.command()?.arg("read").arg(file))?)
    }

    fn command(&self) -> Result<Command> {
        match self {
            Program::Python { python, script, packages } => python.run(script, packages),
        }
    }
}
