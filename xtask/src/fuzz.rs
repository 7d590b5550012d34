//! `cargo xtask fuzz`: the fuzz targets under libFuzzer, each for a while, seeded with the fixtures.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::project::Project;
use crate::{cargo_tools, command};

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
        let mut cargo = Command::new(bin.join("cargo-fuzz"));
        // Without a sanitizer, which only a nightly compiler has: there is no unsafe code in what is fuzzed.
        cargo.args(["fuzz", "run", "--sanitizer", "none", "--fuzz-dir"]).arg(&fuzz);
        cargo.arg("--target-dir").arg(project.target.join("fuzz")).arg(&name).arg(&corpus);
        for folder in fs::read_dir(&fixtures)? {
            let folder = folder?.path();
            if folder.is_dir() {
                cargo.arg(folder);
            }
        }
        cargo.args(["--", &format!("-max_total_time={seconds}"), "-rss_limit_mb=1024", "-print_final_stats=1"]);
        command::run(cargo.current_dir(&fuzz)).with_context(|| format!("{name} found something"))?;
    }
    Ok(())
}
