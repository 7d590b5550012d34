//! Runs a command and measures its time and its peak memory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// The interval at which the peak memory is read.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) struct Run {
    pub(crate) seconds: f64,
    pub(crate) peak_bytes: u64,
}

/// Runs a command to its end, without its output.
pub(crate) fn run(command: &mut Command) -> Result<Run> {
    let start = Instant::now();
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut peak_bytes = 0;
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        peak_bytes = peak_bytes.max(memory_of(process.id()).unwrap_or(0));
        sleep(POLL_INTERVAL);
    };
    ensure!(status.success(), "{} failed: {status}", command.get_program().display());
    Ok(Run { seconds: start.elapsed().as_secs_f64(), peak_bytes })
}

/// The resident memory of a process, in bytes, without the pages of files that are mapped.
fn memory_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
