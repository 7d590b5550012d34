//! `cargo xtask fuzz`: the fuzz targets under libFuzzer and AddressSanitizer, each for a while, seeded with the
//! fixtures.
//!
//! The parsers have no unsafe code, but what they call has: the decoder of `structured-zstd` alone has 236 unsafe
//! blocks. Wrong accesses of theirs would go unnoticed without a sanitizer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weightstream::format::formats;

use crate::project::Project;
use crate::{cargo_tools, command};

/// What watches the memory of a fuzz target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sanitizer {
    /// AddressSanitizer: accesses out of bounds and after the end of a life, leaks.
    Address,
    /// Nothing: for systems that rustc has no sanitizer for. Wrong accesses that do not crash go unnoticed.
    None,
}

/// The target whose inputs begin with the script of a network, and how long that is. The fixtures alone would lose
/// their heads to it.
const SCRIPTED: (&str, u8) = ("load", 64);

/// Targets whose inputs are bare Zstandard frames: they write their own, and the fixtures say nothing to them.
const FRAMES: [&str; 2] = ["zstd_c", "zstd_c_scalar"];

/// The most memory of a target. What AddressSanitizer keeps aside to notice accesses after a life belongs to it.
const MEMORY_LIMIT: &str = "-rss_limit_mb=1024";
const SANITIZER_OPTIONS: &str = "quarantine_size_mb=32";

/// The target that runs for each format, and the variable that tells it which.
const PARSER: &str = "parser";
const FORMAT_VARIABLE: &str = "FUZZ_FORMAT";

/// The manifests of all formats, which are JSON.
const MANIFEST: &str = "manifest";

/// Runs the parser of one format or one other target, or all of them in turn, each for so many seconds. What they find
/// lies in `fuzz/artifacts/` then.
pub fn run(project: &Project, wanted: Option<&str>, seconds: u64, sanitizer: Sanitizer) -> Result<()> {
    let parsers: Vec<_> = formats().iter().map(|format| format.name).chain([MANIFEST]).collect();
    let mut names: Vec<String> = parsers.iter().map(|name| (*name).to_owned()).collect();
    names.extend(targets(project)?.into_iter().filter(|name| name != PARSER));
    if let Some(wanted) = wanted {
        ensure!(names.iter().any(|name| name == wanted), "there is no target {wanted}, only {}", names.join(", "));
        names.retain(|name| name == wanted);
    }
    let target_of = |name: &str| if parsers.contains(&name) { PARSER.to_owned() } else { name.to_owned() };
    let bin = cargo_tools::cargo_fuzz(project)?;
    build(cargo_fuzz(project, &bin, "build", sanitizer).args(wanted.map(target_of)), sanitizer)?;
    let fixtures = project.root.join("tests/fixtures");
    for name in names {
        println!("\n━━ {name}, {seconds} s, {}", sanitizer.name());
        let corpus = project.target.join("fuzz-corpus").join(&name);
        fs::create_dir_all(&corpus)?;
        let mut cargo = cargo_fuzz(project, &bin, "run", sanitizer);
        cargo.arg(target_of(&name)).arg(&corpus).env(FORMAT_VARIABLE, &name);
        if name == SCRIPTED.0 {
            cargo.arg(scripted(project, &fixtures)?);
        } else if !FRAMES.contains(&name.as_str()) {
            cargo.arg(&fixtures);
        }
        cargo.args(["--", &format!("-max_total_time={seconds}"), MEMORY_LIMIT, "-print_final_stats=1"]);
        command::run(&mut cargo).with_context(|| format!("{name} found something"))?;
    }
    Ok(())
}

/// The targets as cargo-fuzz knows them, sorted.
fn targets(project: &Project) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(project.root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Address => "with AddressSanitizer",
            Sanitizer::None => "WITHOUT a sanitizer: wrong accesses to memory that do not crash go unnoticed",
        }
    }
}

/// A command of cargo-fuzz, for targets that this sanitizer watches.
fn cargo_fuzz(project: &Project, bin: &Path, command: &str, sanitizer: Sanitizer) -> Command {
    let fuzz = project.root.join("fuzz");
    let mut cargo = Command::new(bin.join("cargo-fuzz"));
    cargo.args(["fuzz", command, "--sanitizer"]);
    match sanitizer {
        Sanitizer::Address => {
            cargo.arg("address").env("ASAN_OPTIONS", SANITIZER_OPTIONS);
            // rustc hides its sanitizers behind a flag of nightly ones; their runtime comes with all of them.
            cargo.env("RUSTC_BOOTSTRAP", "1");
            // The C library is watched, too. GCC poisons a constant table of its for good when it leaves the table's
            // scope.
            cargo.env("CFLAGS", "-fno-sanitize-address-use-after-scope");
        }
        Sanitizer::None => drop(cargo.arg("none")),
    }
    let folder = project.target.join("fuzz");
    cargo.arg("--fuzz-dir").arg(&fuzz).arg("--target-dir").arg(folder).current_dir(&fuzz);
    cargo
}

/// Apart from running, so that a missing sanitizer is no finding.
fn build(cargo: &mut Command, sanitizer: Sanitizer) -> Result<()> {
    command::run(cargo).with_context(|| match sanitizer {
        Sanitizer::Address => {
            "the fuzz targets cannot be built with AddressSanitizer (which rustc has for Linux and macOS on x86-64 and \
             ARM64). `--sanitizer none` fuzzes without, and misses wrong accesses to memory that do not crash"
        }
        Sanitizer::None => "the fuzz targets cannot be built",
    })
}

/// A folder of the fixtures, each behind a script of its own.
fn scripted(project: &Project, fixtures: &Path) -> Result<PathBuf> {
    let seeds = project.target.join("fuzz-seeds").join(SCRIPTED.0);
    fs::create_dir_all(&seeds)?;
    for folder in fs::read_dir(fixtures)?.map(|entry| Ok(entry?.path())).filter(is_folder) {
        for (number, file) in fs::read_dir(folder?)?.enumerate() {
            let file = file?;
            if file.file_type()?.is_file() {
                // An odd byte says that one more request follows.
                let script = (0..SCRIPTED.1).map(|at| at.wrapping_mul(37).wrapping_add(number as u8) | 1);
                let input: Vec<u8> = script.chain(fs::read(file.path())?).collect();
                fs::write(seeds.join(file.file_name()), input)?;
            }
        }
    }
    Ok(seeds)
}

fn is_folder(path: &Result<PathBuf>) -> bool {
    path.as_ref().map_or(true, |path| path.is_dir())
}
