//! `cargo xtask interop`: weightstream reads what the formats' own tools write, and the tools read what it writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::listing::Listing;
use crate::peers::{PEERS, Peer, Program, Reads};
use crate::targets::Target;
use xtask::project::Project;
use xtask::{command, model};

/// The default seed of the random tensors.
pub const SEED: u64 = 2026;

/// The directions.
const THEY_WRITE: &str = "they write, we read";
const WE_WRITE: &str = "we write, they read";

/// Tests every tool in both directions and prints a table. Fails if anything differs.
pub fn run(project: &Project, seed: u64) -> Result<()> {
    println!("interop: seed {seed}");
    let weightstream = Weightstream::build(project)?;
    let folder = tempfile::tempdir()?;
    let (mut rows, mut sources, mut readers) = (Vec::new(), Vec::new(), Vec::new());
    for (at, peer) in PEERS.iter().enumerate() {
        let folder = folder.path().join(at.to_string());
        fs::create_dir(&folder)?;
        let tool = peer.name(project)?;
        match peer.ready(project).and_then(|program| Ok((program.write(seed, &folder)?, program))) {
            Err(error) => {
                rows.push(Row::new(peer, &tool, "both", "", Outcome::Failed(error.context("not run"))));
            }
            Ok((files, program)) => {
                for (file, expected) in files {
                    let outcome = weightstream.reads(&program, &file, &expected);
                    rows.push(Row::new(peer, &tool, THEY_WRITE, &name_of(&file), or_failed(outcome)));
                    sources.push(Source { peer, tool: tool.clone(), listing: weightstream.inspect(&file), file });
                }
                readers.push((peer, tool, program));
            }
        }
    }
    for (peer, tool, program) in &readers {
        rows.extend(written_for(peer, tool, program, &weightstream, &sources, folder.path()));
    }
    for format in ["aero", "embd"] {
        let outcome = Outcome::Impossible("no registry has a tool for it");
        rows.push(Row { format, tool: String::new(), direction: "", file: String::new(), outcome });
    }
    report(&rows)
}

/// What a tool reads of the files of all tools, converted to its format.
fn written_for(
    peer: &'static Peer,
    tool: &str,
    program: &Program,
    weightstream: &Weightstream,
    sources: &[Source],
    folder: &Path,
) -> Vec<Row> {
    let row = |file: &str, outcome| Row::new(peer, tool, WE_WRITE, file, outcome);
    let mut rows = Vec::new();
    match &peer.reads {
        Reads::Graphs => {
            for source in sources.iter().filter(|source| source.peer.format == peer.format) {
                for (dtype, how) in [(None, "split"), (Some("F16"), "cast"), (Some("BF16"), "cast")] {
                    let out = folder.join("split/");
                    let file = format!("{} {}", name_of(&source.file), dtype.unwrap_or_default());
                    let outcome = weightstream.splits(program, &source.file, &out, dtype, how);
                    rows.push(Row { direction: "we split, they run", ..row(file.trim_end(), or_failed(outcome)) });
                }
            }
        }
        Reads::Nothing(reason) => rows.push(row("", Outcome::Impossible(reason))),
        Reads::Format { target, cannot } => {
            let out = folder.join("written").with_extension(target.format);
            for (source, options) in sources.iter().zip(target.options.iter().cycle()) {
                let conversion = Conversion { target, options, source, out: &out };
                let outcome = or_failed(weightstream.writes(&conversion, program, cannot));
                let file = format!("{} of {} {}", name_of(&source.file), source.tool, options.join(" "));
                rows.push(row(file.trim_end(), outcome));
            }
        }
    }
    rows
}

/// A file that a tool wrote.
struct Source {
    peer: &'static Peer,
    /// The tool, with its version.
    tool: String,
    file: PathBuf,
    listing: Result<Listing>,
}

/// The arguments of `weightstream convert`.
struct Conversion<'a> {
    target: &'a Target,
    options: &'a [&'a str],
    source: &'a Source,
    out: &'a Path,
}

/// The path of the `weightstream` program.
struct Weightstream(PathBuf);

impl Weightstream {
    fn build(project: &Project) -> Result<Self> {
        Ok(Weightstream(model::command_line(project)?))
    }

    /// Reads a file that a tool wrote and compares it with the tool's description.
    fn reads(&self, program: &Program, file: &Path, expected: &Listing) -> Result<Outcome> {
        expected.ensure_same(&program.read(file)?).context("the tool reads something other than it wrote")?;
        expected.ensure_same(&self.inspect(file)?)?;
        let verified = command::output(self.command("verify").arg(file))?;
        for checksum in &expected.checksums {
            ensure!(verified.contains(checksum.as_str()), "{checksum} was not checked, only: {}", verified.trim());
        }
        let joined = expected.joined().len();
        Ok(Outcome::Same(Counts { tensors: expected.tensors.len(), joined, ..Counts::default() }))
    }

    /// Converts a file and lets the tool read the result. The conversion must reject exactly the tensors that the
    /// format does not support, and metadata without what it requires; `--allow-loss` omits them.
    fn writes(
        &self,
        conversion: &Conversion,
        program: &Program,
        cannot: &dyn Fn(&Listing) -> Option<&'static str>,
    ) -> Result<Outcome> {
        let Conversion { target, source, out, .. } = conversion;
        let Ok(listing) = &source.listing else { bail!("{} cannot be read", source.file.display()) };
        let mut expected = listing.clone();
        let keeps_attributes = target.keeps_attributes || source.peer.format == target.format;
        expected.tensors.retain(|tensor| target.holds(tensor));
        if !keeps_attributes {
            expected.remove_attributes();
        }
        expected.remove_encodings();
        expected.metadata.iter_mut().for_each(|metadata| metadata.retain(|key, _| !target.file_keys.contains(&&**key)));
        let tensors = expected.tensors.len();
        let refused = listing.tensors.len() - tensors;
        match self.convert(conversion, &[]) {
            Ok(()) => ensure!(refused == 0, "{refused} tensors were written that {} does not support", target.format),
            Err(error) => {
                let error = format!("{error:#}");
                let is_expected = ["attribute", "`general.architecture`"].iter().any(|loss| error.contains(loss));
                ensure!(error.contains("error[UNSUPPORTED]") && (refused > 0 || is_expected), "{error}");
                self.convert(conversion, &["--allow-loss"])?;
            }
        }
        let written = Listing::of_inspect(&command::output(self.command("inspect").arg("--json").arg(out))?)?;
        let split = written.joined();
        let read = program.read(out).and_then(|mut found| {
            let unjoined = expected.remove_unjoined(&mut found, &split)?;
            expected.ensure_same(&found)?;
            Ok(Counts { tensors: tensors - unjoined, refused, joined: split.len() - unjoined, unjoined })
        });
        let mut others = listing.clone();
        others.tensors.retain(|tensor| !split.contains(&*tensor.name));
        match (cannot(&others), read) {
            (None, read) => read.map(Outcome::Same),
            (Some(reason), Err(_)) => Ok(Outcome::Impossible(reason)),
            (Some(reason), Ok(_)) => bail!("the tool can read the file, contrary to the exception: {reason}"),
        }
    }

    /// Splits a model into its graph and its weights, and lets the tool compare it with the original.
    fn splits(&self, program: &Program, file: &Path, out: &Path, dtype: Option<&str>, how: &str) -> Result<Outcome> {
        let mut convert = self.command("convert");
        convert.arg("--force").arg(file).arg(out).args(["--format", "safetensors"]);
        command::output(convert.args(dtype.into_iter().flat_map(|dtype| ["--dtype", dtype])))?;
        program.compare(how, file, &out.join("model.onnx"))?;
        let written = self.inspect(&out.join("model.safetensors"))?;
        Ok(Outcome::Same(Counts { tensors: written.tensors.len(), ..Counts::default() }))
    }

    fn convert(&self, conversion: &Conversion, more: &[&str]) -> Result<()> {
        let Conversion { target, options, source, out } = conversion;
        let mut convert = self.command("convert");
        convert.arg("--force"); // every conversion writes to the same path
        convert.arg(&source.file).arg(out).args(["--format", target.format]).args(*options).args(more);
        command::output(&mut convert).map(drop)
    }

    fn inspect(&self, file: &Path) -> Result<Listing> {
        Listing::of_inspect(&command::output(self.command("inspect").args(["--json", "--sha256"]).arg(file))?)
    }

    fn command(&self, command: &str) -> Command {
        let mut weightstream = Command::new(&self.0);
        weightstream.arg(command);
        weightstream
    }
}

/// One comparison.
struct Row {
    format: &'static str,
    tool: String,
    direction: &'static str,
    file: String,
    outcome: Outcome,
}

enum Outcome {
    /// The tensors are identical.
    Same(Counts),
    /// The comparison is impossible for this reason.
    Impossible(&'static str),
    Failed(anyhow::Error),
}

/// Numbers of tensors.
#[derive(Default)]
struct Counts {
    /// Those that are identical.
    tensors: usize,
    /// Others, which are not supported by the format and were rejected.
    refused: usize,
    /// Those of `tensors` that are in streams of bytes, which the reader joined.
    joined: usize,
    /// Others in streams of bytes, which the tool lists and does not join.
    unjoined: usize,
}

fn or_failed(outcome: Result<Outcome>) -> Outcome {
    outcome.unwrap_or_else(Outcome::Failed)
}

impl Row {
    fn new(peer: &Peer, tool: &str, direction: &'static str, file: &str, outcome: Outcome) -> Self {
        Row { format: peer.format, tool: tool.to_owned(), direction, file: file.to_owned(), outcome }
    }

    fn cells(&self) -> [String; 6] {
        let (tensors, result) = match &self.outcome {
            Outcome::Same(Counts { tensors, refused, joined, unjoined }) => {
                let counts = [(refused, "rejected"), (joined, "joined"), (unjoined, "listed as streams")];
                let counts = counts.iter().filter(|(count, _)| **count > 0);
                let counts: String = counts.map(|(count, what)| format!("; {count} {what}")).collect();
                (tensors.to_string(), format!("same{counts}"))
            }
            Outcome::Impossible(reason) => ("-".to_owned(), format!("impossible: {reason}")),
            Outcome::Failed(_) => ("-".to_owned(), "FAILED".to_owned()),
        };
        [self.format.to_owned(), self.tool.clone(), self.direction.to_owned(), self.file.clone(), tensors, result]
    }
}

/// Prints the table, followed by the failures.
fn report(rows: &[Row]) -> Result<()> {
    let headings = ["FORMAT", "TOOL", "DIRECTION", "FILE", "TENSORS", "RESULT"].map(str::to_owned);
    let lines: Vec<_> = [headings].into_iter().chain(rows.iter().map(Row::cells)).collect();
    let mut widths = [0; 6];
    for line in &lines {
        widths.iter_mut().zip(line).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    for line in &lines {
        let cells: Vec<_> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", cells.join("  ").trim_end());
    }
    let mut failed = 0;
    for Row { tool, direction, file, outcome, .. } in rows {
        if let Outcome::Failed(error) = outcome {
            failed += 1;
            println!("\n{tool}, {direction}: {file}\n  {error:#}");
        }
    }
    ensure!(failed == 0, "{failed} of {} rows failed", rows.len());
    for direction in [THEY_WRITE, WE_WRITE] {
        let joined = |row: &Row| matches!(row.outcome, Outcome::Same(Counts { joined: 1.., .. }));
        ensure!(
            rows.iter().any(|row| row.direction == direction && joined(row)),
            "{direction}: no tensor was in streams of bytes"
        );
    }
    Ok(())
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
