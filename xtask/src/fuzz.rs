//! `cargo xtask fuzz`: the fuzz targets under libFuzzer, each for a while, seeded with the fixtures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::project::Project;
use crate::{cargo_tools, command};

/// The target whose inputs begin with the script of a network, and how long that is. The fixtures alone would lose their heads to it.
const SCRIPTED: (&str, u8) = ("load", 64);

/// Runs one target, or all of them in turn, each for so many seconds. What they find lies in `fuzz/artifacts/` then.
pub(crate) fn run(project: &Project, target: Option<&str>, seconds: u64) -> Result<()> {
    let fuzz = project.root.join("fuzz");
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(fuzz.join("fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    if let Some(target) = target {
        ensure!(names.iter().any(|name| name == target), "there is no target {target}, only {}", names.join(", "));
        names.retain(|name| name == target);
    }
    let bin = cargo_tools::cargo_fuzz(project)?;
    let fixtures = project.root.join("tests/fixtures");
    for name in names {
        println!("\n━━ {name}, {seconds} s");
        let corpus = project.target.join("fuzz-corpus").join(&name);
        fs::create_dir_all(&corpus)?;
        let seeds = if name == SCRIPTED.0 { scripted(project, &fixtures)? } else { fixtures.clone() };
        let mut cargo = Command::new(bin.join("cargo-fuzz"));
        // Without a sanitizer, which only a nightly compiler has: there is no unsafe code in what is fuzzed.
        cargo.args(["fuzz", "run", "--sanitizer", "none", "--fuzz-dir"]).arg(&fuzz);
        cargo.arg("--target-dir").arg(project.target.join("fuzz")).arg(&name).arg(&corpus).arg(seeds);
        cargo.args(["--", &format!("-max_total_time={seconds}"), "-rss_limit_mb=1024", "-print_final_stats=1"]);
        command::run(cargo.current_dir(&fuzz)).with_context(|| format!("{name} found something"))?;
    }
    Ok(())
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
