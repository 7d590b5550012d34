//! Runs other programs. Errors contain the command and its output.

use std::env;
use std::ffi::OsString;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cpu_time;

/// Commands that take longer are reported with their time.
const LONG: Duration = Duration::from_secs(10);

/// Runs a command with its output visible to the user.
pub fn run(command: &mut Command) -> Result<()> {
    let (start, before) = (Instant::now(), cpu_time::of_children());
    let status = command.status().with_context(|| format!("cannot run {}", describe(command)))?;
    if start.elapsed() > LONG {
        let cpu = cpu_time::of_children().zip(before).map(|(after, before)| after.saturating_sub(before).as_secs());
        let cpu = cpu.map_or_else(String::new, |seconds| format!(", {seconds} s of CPU time"));
        println!("took {} s{cpu}: {}", start.elapsed().as_secs(), describe(command));
    }
    if !status.success() {
        bail!("{} failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output. Its standard error is part of the error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {}", describe(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({})\n{}", describe(command), output.status, stderr.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("the output of {} is not UTF-8", describe(command)))
}

/// Runs a command without input and shows its output only if it fails. Stops it after `limit`.
pub fn quiet(command: &mut Command, limit: Duration) -> Result<()> {
    both_outputs(command, limit).map(drop)
}

/// Like [`quiet`], but returns the interleaved standard output and standard error of the command.
pub fn both_outputs(command: &mut Command, limit: Duration) -> Result<String> {
    let mut log = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let outcome = status_within(command, limit);
    let mut written = String::new();
    log.rewind()?;
    log.read_to_string(&mut written)?;
    match outcome? {
        Some(status) if status.success() => Ok(written),
        Some(status) => bail!("{} failed ({status})\n{}", describe(command), written.trim_end()),
        None => bail!("{} was stopped after {} s\n{}", describe(command), limit.as_secs(), written.trim_end()),
    }
}

/// The path of a program in `PATH`, as a shell finds it.
pub fn in_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program).with_extension(env::consts::EXE_EXTENSION))
        .find(|path| path.is_file())
}

/// A `PATH` in which these folders come first.
pub fn path_starting_with<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Result<OsString> {
    let rest = env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().map(Path::to_path_buf).chain(env::split_paths(&rest));
    env::join_paths(all).context("a folder name contains the separator of PATH")
}

/// The command and its arguments, for messages.
pub fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}

/// Returns `None` if the command was killed after the time limit.
fn status_within(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let mut child = command.spawn().with_context(|| format!("cannot run {}", describe(command)))?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        sleep(Duration::from_millis(20));
    }
}
