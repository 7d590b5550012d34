//! Running other programs, with errors that name the command and what it said.

use std::env;
use std::ffi::OsString;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Runs a command whose output the person should see.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", spelled(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", spelled(command));
    }
    Ok(())
}

/// Runs a command and gives its standard output; what it wrote to standard error is part of the error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {}", spelled(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({})\n{}", spelled(command), output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} wrote no UTF-8", spelled(command)))
}

/// Runs a command whose output matters only when it fails. It gets no input and no more than `limit` of time.
pub fn quiet(command: &mut Command, limit: Duration) -> Result<()> {
    both_outputs(command, limit).map(drop)
}

/// Like [`quiet`], but returns what the command wrote to standard output and standard error, in the order in which it
/// wrote it.
pub fn both_outputs(command: &mut Command, limit: Duration) -> Result<String> {
    let mut log = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let outcome = status_within(command, limit);
    let mut said = String::new();
    log.rewind()?;
    log.read_to_string(&mut said)?;
    match outcome? {
        Some(status) if status.success() => Ok(said),
        Some(status) => bail!("{} failed ({status})\n{}", spelled(command), said.trim_end()),
        None => bail!("{} was stopped after {} s\n{}", spelled(command), limit.as_secs(), said.trim_end()),
    }
}

/// Where the shell would find a program.
pub fn in_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program).with_extension(env::consts::EXE_EXTENSION))
        .find(|path| path.is_file())
}

/// A `PATH` in which these folders come first.
pub fn path_starting_with<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Result<OsString> {
    let rest = env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().map(Path::to_path_buf).chain(env::split_paths(&rest));
    env::join_paths(all).context("a folder's name does not fit into PATH")
}

/// The command as a person would type it, for messages.
pub fn spelled(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}

/// `None` when the time was up and the command was ended.
fn status_within(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let mut child = command.spawn().with_context(|| format!("cannot run {}", spelled(command)))?;
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
