//! Measures `weightstream verify` and `weightstream convert` against the tools that do the least of the same work:
//! `b3sum`, `sha256sum` and `cat` read and digest a file, `cp` copies it.
//!
//! Each round runs a command and its baseline, in alternating order; the table has the medians of the ratios of the
//! rounds. `verify` reads files that are in the page cache. `convert` and `cp` end when what they wrote is on the disk.

#![warn(clippy::too_many_lines)]

mod cases;
mod model;
mod process;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use xtask::command;

use cases::Case;

/// Measures the command line against `b3sum`, `sha256sum`, `cat` and `cp`. Requires Linux, and `b3sum` in PATH for
/// BLAKE3.
#[derive(Parser)]
struct Arguments {
    /// The size of the model, in GB. Conversions need twice as much space on the disk.
    #[arg(long, default_value_t = 10)]
    gigabytes: u64,
    /// The number of rounds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Run only the cases whose names begin with this.
    #[arg(long, default_value = "")]
    only: String,
    /// The folder for the models; it must not be in memory.
    #[arg(long, default_value = "target")]
    folder: PathBuf,
}

fn main() -> Result<()> {
    let Arguments { gigabytes, rounds, only, folder } = Arguments::parse();
    let program = PathBuf::from("target/release/weightstream");
    ensure!(program.exists(), "the command line is missing: run `cargo build --release -p weightstream-cli` first");
    let folder = tempfile::Builder::new().prefix("native-benchmark-").tempdir_in(folder)?;
    let model = folder.path().join("model.safetensors");
    model::write(&model, gigabytes * 1_000_000_000)?;

    println!("| case | against | ratio | goal | | seconds | peak memory, MiB | goal | |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for case in cases::all(&program, folder.path(), &model).filter(|case| case.name.starts_with(&only)) {
        let Case { name, against, goal, peak_goal_mib, .. } = &case;
        let tool = against.name;
        ensure!(
            command::in_path(tool).is_some(),
            "{tool} is missing in PATH: `cargo xtask bench --native` installs b3sum"
        );
        let measured = case.measure(rounds.into())?;
        let verdict = |is_met| if is_met { "met" } else { "MISSED" };
        let peak = match peak_goal_mib {
            Some(goal) => format!("≤ {goal} | {}", verdict(measured.peak_mib <= *goal)),
            None => "– |".to_owned(),
        };
        println!(
            "| {name} | {} | {:.2} | ≤ {goal} | {} | {:.2} / {:.2} | {:.0} | {peak} |",
            against.name,
            measured.ratio,
            verdict(measured.ratio <= *goal),
            measured.seconds,
            measured.baseline_seconds,
            measured.peak_mib,
        );
    }
    Ok(())
}
