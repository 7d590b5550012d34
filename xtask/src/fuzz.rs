//! `cargo xtask fuzz`: runs the fuzz targets with libFuzzer and AddressSanitizer for a limited time, seeded with the
//! fixtures.
//!
//! The parsers have no unsafe code, but their dependencies do: the decoder of `structured-zstd` alone has 236 unsafe
//! blocks. Without a sanitizer, most invalid memory accesses go undetected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weightstream::internals::format::formats;

use crate::project::Project;
use crate::{cargo_tools, command};

/// The sanitizer of a fuzz target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sanitizer {
    /// AddressSanitizer: detects out-of-bounds accesses, use after free and leaks.
    Address,
    /// No sanitizer, for systems that rustc does not support one for. Only accesses that crash are detected.
    None,
}

/// The target whose inputs start with a script of the simulated network, and the length of the script. Its seeds are
/// fixtures with a script prepended.
const NETWORK_TARGET: (&str, u8) = ("load", 64);

/// The target whose inputs are a model, a configuration and an adapter, the first two preceded by their lengths.
const FLOATS: &str = "floats";

/// Targets whose inputs are plain Zstandard frames. They generate their own seeds instead of using fixtures.
const ZSTD_TARGETS: [&str; 3] = ["zstd_c", "zstd_c_scalar", "zstd_literals"];

/// The memory limit of a target. It includes the quarantine with which AddressSanitizer detects use after free.
const MEMORY_LIMIT: &str = "-rss_limit_mb=1024";
const SANITIZER_OPTIONS: &str = "quarantine_size_mb=32";

/// The target that runs once for each format, and the environment variable that selects the format.
const PARSER: &str = "parser";
const FORMAT_VARIABLE: &str = "FUZZ_FORMAT";

/// The name under which the JSON manifests of all formats are fuzzed.
const MANIFEST: &str = "manifest";

/// Runs the parser of one format, one other target, or all of them in turn, each for `seconds`. Findings are written
/// to `fuzz/artifacts/`.
pub fn run(project: &Project, wanted: Option<&str>, seconds: u64, sanitizer: Sanitizer) -> Result<()> {
    let parsers: Vec<_> = formats().iter().map(|format| format.name).chain([MANIFEST]).collect();
    let mut names: Vec<String> = parsers.iter().map(|name| (*name).to_owned()).collect();
    names.extend(targets(project)?.into_iter().filter(|name| name != PARSER));
    if let Some(wanted) = wanted {
        let is_known = names.iter().any(|name| name == wanted);
        ensure!(is_known, "unknown target {wanted}; the targets are {}", names.join(", "));
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
        if name == NETWORK_TARGET.0 {
            cargo.arg(network_seeds(project, &fixtures)?);
        } else if name == FLOATS {
            cargo.arg(float_seeds(project, &fixtures)?);
        } else if !ZSTD_TARGETS.contains(&name.as_str()) {
            cargo.arg(&fixtures);
        }
        cargo.args(["--", &format!("-max_total_time={seconds}"), MEMORY_LIMIT, "-print_final_stats=1"]);
        command::run(&mut cargo).with_context(|| format!("{name} failed"))?;
    }
    Ok(())
}

/// The names of the targets in cargo-fuzz, sorted.
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
            Sanitizer::None => "WITHOUT a sanitizer: invalid memory accesses that do not crash go undetected",
        }
    }
}

/// A command of cargo-fuzz with this sanitizer.
fn cargo_fuzz(project: &Project, bin: &Path, command: &str, sanitizer: Sanitizer) -> Command {
    let fuzz = project.root.join("fuzz");
    let mut cargo = Command::new(bin.join("cargo-fuzz"));
    cargo.args(["fuzz", command, "--sanitizer"]);
    match sanitizer {
        Sanitizer::Address => {
            cargo.arg("address").env("ASAN_OPTIONS", SANITIZER_OPTIONS);
            // Sanitizers are an unstable option of rustc. Stable compilers include their runtime, too.
            cargo.env("RUSTC_BOOTSTRAP", "1");
            // The C library is also sanitized. GCC permanently poisons one of its constant tables when the scope of
            // the table ends, hence this flag.
            cargo.env("CFLAGS", "-fno-sanitize-address-use-after-scope");
        }
        Sanitizer::None => drop(cargo.arg("none")),
    }
    let folder = project.target.join("fuzz");
    cargo.arg("--fuzz-dir").arg(&fuzz).arg("--target-dir").arg(folder).current_dir(&fuzz);
    cargo
}

/// Builds separately from running, so that a missing sanitizer is not reported as a finding.
fn build(cargo: &mut Command, sanitizer: Sanitizer) -> Result<()> {
    command::run(cargo).with_context(|| match sanitizer {
        Sanitizer::Address => {
            "the fuzz targets cannot be built with AddressSanitizer (which rustc has for Linux and macOS on x86-64 and \
             ARM64). `--sanitizer none` fuzzes without it, and misses invalid memory accesses that do not crash"
        }
        Sanitizer::None => "the fuzz targets cannot be built",
    })
}

/// Writes a folder of seeds: each fixture with a network script prepended.
fn network_seeds(project: &Project, fixtures: &Path) -> Result<PathBuf> {
    let seeds = project.target.join("fuzz-seeds").join(NETWORK_TARGET.0);
    fs::create_dir_all(&seeds)?;
    for folder in fs::read_dir(fixtures)?.map(|entry| Ok(entry?.path())).filter(is_folder) {
        for (number, file) in fs::read_dir(folder?)?.enumerate() {
            let file = file?;
            if file.file_type()?.is_file() {
                // An odd byte means that another request follows.
                let script = (0..NETWORK_TARGET.1).map(|at| at.wrapping_mul(37).wrapping_add(number as u8) | 1);
                let input: Vec<u8> = script.chain(fs::read(file.path())?).collect();
                fs::write(seeds.join(file.file_name()), input)?;
            }
        }
    }
    Ok(seeds)
}

/// Writes a folder of seeds: the quantized models and the models with adapters among the fixtures.
fn float_seeds(project: &Project, fixtures: &Path) -> Result<PathBuf> {
    let seeds = project.target.join("fuzz-seeds").join(FLOATS);
    fs::create_dir_all(&seeds)?;
    for parent in ["quantized", "adapters"] {
        for folder in fs::read_dir(fixtures.join(parent))?.map(|entry| Ok(entry?.path())).filter(is_folder) {
            let folder = folder?;
            let read = |names: &[&str]| names.iter().find_map(|name| fs::read(folder.join(name)).ok());
            let Some(model) = read(&["model.safetensors", "model.gguf", "model.onnx"]) else { continue };
            let config = read(&["config.json", "adapter_config.json"]).unwrap_or_default();
            let adapter = read(&["adapter_model.safetensors", "adapter.safetensors", "adapter.gguf"]);
            let block = |bytes: Vec<u8>| [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat();
            let input = [block(model), block(config), adapter.unwrap_or_default()].concat();
            let name = folder.file_name().unwrap_or_default();
            fs::write(seeds.join(name), input)?;
        }
    }
    Ok(seeds)
}

fn is_folder(path: &Result<PathBuf>) -> bool {
    path.as_ref().map_or(true, |path| path.is_dir())
}
