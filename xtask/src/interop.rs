//! `cargo xtask interop`: what the formats' own tools write we read, and what we write they read.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command;
use crate::listing::Listing;
use crate::peers::{PEERS, Peer, Program, Reads};
use crate::project::Project;

/// Where no other is asked for.
pub(crate) const SEED: u64 = 2026;

/// One thing that was tried.
struct Row {
    format: String,
    peer: String,
    direction: &'static str,
    file: String,
    outcome: Outcome,
}

enum Outcome {
    /// So many tensors are the same.
    Same(usize),
    /// There is nothing to try, for this reason.
    Impossible(&'static str),
    Failed(anyhow::Error),
}

/// A file that a tool wrote.
struct Source {
    file: PathBuf,
}

pub(crate) fn run(project: &Project, seed: u64) -> Result<()> {
    println!("interop: seed {seed}");
    let weightstream = Weightstream::build(project)?;
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    let mut sources = Vec::new();
    let mut readers = Vec::new();
    for (at, peer) in PEERS.iter().enumerate() {
        let folder = folder.path().join(at.to_string());
        fs::create_dir(&folder)?;
        let written = peer.ready(project).and_then(|program| Ok((program.write(seed, &folder)?, program)));
        match written {
            Ok((files, program)) => {
                for (file, expected) in files {
                    let outcome = weightstream.reads(&program, &file, &expected);
                    rows.push(Row::new(peer, "they write", &file, outcome));
                    sources.push(Source { file });
                }
                readers.push((peer, program));
            }
            Err(error) => rows.push(Row::new(peer, "both", Path::new("-"), Err(error.context("not run")))),
        }
    }
    for (peer, program) in &readers {
        match peer.reads {
            Reads::Nothing(reason) => {
                rows.push(Row {
                    outcome: Outcome::Impossible(reason),
                    ..Row::new(peer, "we write", Path::new("-"), Ok(0))
                });
            }
            Reads::Format(format) => {
                for Source { file } in &sources {
                    let outcome = weightstream.writes(format, file, program, folder.path());
                    rows.push(Row::new(peer, "we write", file, outcome));
                }
            }
        }
    }
    report(&rows)
}

impl Row {
    fn new(peer: &Peer, direction: &'static str, file: &Path, outcome: Result<usize>) -> Self {
        Row {
            format: peer.format.to_owned(),
            peer: peer.name(),
            direction,
            file: file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
            outcome: outcome.map_or_else(Outcome::Failed, Outcome::Same),
        }
    }
}

/// Our command line.
struct Weightstream(PathBuf);

impl Weightstream {
    fn build(project: &Project) -> Result<Self> {
        let mut cargo = Command::new("cargo");
        command::run(cargo.args(["build", "--quiet", "--bin", "weightstream"]).current_dir(&project.root))?;
        Ok(Weightstream(project.target.join("debug/weightstream").with_extension(env::consts::EXE_EXTENSION)))
    }

    /// Reads what a tool wrote; gives the number of tensors, which are all as the tool says.
    fn reads(&self, program: &Program, file: &Path, expected: &Listing) -> Result<usize> {
        expected.ensure_same(&program.read(file)?).context("the tool reads something else than it wrote")?;
        expected.ensure_same(&self.inspect(file)?)?;
        let verified = command::output(self.command("verify").arg(file))?;
        for checksum in &expected.checksums {
            ensure!(verified.contains(checksum.as_str()), "{checksum} was not checked, only: {}", verified.trim());
        }
        Ok(expected.tensors.len())
    }

    /// Writes a file's tensors in a format and has the tool read them.
    fn writes(&self, format: &str, source: &Path, program: &Program, folder: &Path) -> Result<usize> {
        let written = folder.join("written").with_extension(format);
        command::output(self.command("convert").arg(source).arg(&written).args(["--format", format]))?;
        let expected = self.inspect(source)?;
        expected.ensure_same(&program.read(&written)?)?;
        Ok(expected.tensors.len())
    }

    fn inspect(&self, file: &Path) -> Result<Listing> {
        Listing::parse(&command::output(self.command("inspect").args(["--json", "--sha256"]).arg(file))?)
    }

    fn command(&self, command: &str) -> Command {
        let mut weightstream = Command::new(&self.0);
        weightstream.arg(command);
        weightstream
    }
}

fn report(rows: &[Row]) -> Result<()> {
    let headings = ["FORMAT", "TOOL", "DIRECTION", "FILE", "TENSORS", "RESULT"].map(str::to_owned);
    let line = |row: &Row| {
        let (tensors, result) = match &row.outcome {
            Outcome::Same(tensors) => (tensors.to_string(), "same".to_owned()),
            Outcome::Impossible(reason) => ("-".to_owned(), format!("impossible: {reason}")),
            Outcome::Failed(_) => ("-".to_owned(), "FAILED".to_owned()),
        };
        [row.format.clone(), row.peer.clone(), row.direction.to_owned(), row.file.clone(), tensors, result]
    };
    let lines: Vec<[String; 6]> = [headings].into_iter().chain(rows.iter().map(line)).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|at| lines.iter().filter_map(|line| line.get(at)).map(String::len).max().unwrap_or(0));
    for line in &lines {
        let cells: Vec<_> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", cells.join("  ").trim_end());
    }
    let mut failed = 0;
    for Row { peer, direction, file, outcome, .. } in rows {
        if let Outcome::Failed(error) = outcome {
            failed += 1;
            println!("\n{peer}, {direction}, {file}: {error:#}");
        }
    }
    ensure!(failed == 0, "{failed} of {} rows failed", rows.len());
    Ok(())
}
