//! Publishes a model that is larger than memory and disk, and measures the time and the peak memory of `publish`.
//!
//! The model is a sparse file, so it takes no space. The store is a server in this program that keeps only the blocks
//! of a file that are not zero. The process of `publish` may allocate at most 512 MiB.

#![warn(clippy::too_many_lines)]

mod input;
mod store;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use indicatif::{DecimalBytes, HumanBytes};

/// The interval at which the peak memory is read.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Measures `weightstream publish` of a large model. Requires Linux, and `prlimit` of util-linux.
#[derive(Parser)]
struct Arguments {
    /// The size of the model, in GB.
    #[arg(long, default_value_t = 40)]
    gigabytes: u64,
    /// The memory that the process may allocate, in MiB.
    #[arg(long, default_value_t = 512)]
    limit_mib: u64,
    /// The folder for the sparse file and for temporary files; it must not be in memory.
    #[arg(long, default_value = "target")]
    folder: PathBuf,
    /// The arguments of `publish` after the input and the destination, such as `--dtype F16`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

fn main() -> Result<()> {
    let Arguments { gigabytes, limit_mib, folder, options } = Arguments::parse();
    let program = Path::new("target/release/weightstream");
    ensure!(program.exists(), "the command line is missing: run `cargo build --release -p weightstream-cli` first");
    let folder = tempfile::Builder::new().prefix("publish-benchmark-").tempdir_in(folder)?;
    let model = folder.path().join("model.safetensors");
    let tensors = input::write(&model, gigabytes * 1_000_000_000)?;
    let store = store::Store::start()?;

    let start = Instant::now();
    let mut publish = Command::new("prlimit");
    publish.arg(format!("--data={}", limit_mib << 20)).arg(program);
    publish.arg("publish").arg(&model).arg(store.url("models/")).args(&options);
    publish.env("TMPDIR", folder.path()).stdin(Stdio::null());
    let mut process = publish.spawn().context("cannot start prlimit, which is a part of util-linux")?;
    let mut peak_bytes = 0;
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        peak_bytes = peak_bytes.max(peak_of(process.id()).unwrap_or(0));
        sleep(POLL_INTERVAL);
    };
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "publish failed: {status}");

    let stored = store.stored();
    println!(
        "{tensors} tensors, {} of input; {} files, {} stored; {seconds:.0} s, {}/s; peak memory {} of {limit_mib} MiB",
        DecimalBytes(fs::metadata(&model)?.len()),
        stored.files,
        DecimalBytes(stored.bytes),
        DecimalBytes((stored.bytes as f64 / seconds) as u64),
        HumanBytes(peak_bytes),
    );
    Ok(())
}

/// The largest resident size of a process so far, in bytes.
fn peak_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
