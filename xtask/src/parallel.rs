//! Runs steps of the suite in parallel, because steps in a browser spend most of their time waiting.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process_tree;

/// A step that takes longer hangs: the longest needs about 11 minutes beside two others on two cores. Without a limit,
/// continuous integration would end the whole run, and the output of the step would be lost.
const STEP_LIMIT: Duration = Duration::from_secs(25 * 60);

/// The only step that takes longer, about 25 minutes, and its limit.
const LONG_STEP: (&str, Duration) = ("bridges", Duration::from_secs(45 * 60));

/// How often a running step is checked.
const POLL: Duration = Duration::from_millis(100);

/// Three steps keep the two cores busy that most CI machines have.
const MAX_PARALLEL_STEPS: usize = 3;

/// The result of a step.
pub struct StepResult<'a> {
    pub name: &'a str,
    pub passed: bool,
    pub time: Duration,
    /// The interleaved standard output and standard error.
    pub output: String,
}

/// Starts the steps with these names in order, each in its own process of the program `xtask`. Calls `on_end` whenever
/// a step ends.
pub fn run<'a>(xtask: &Path, names: &[&'a str], mut on_end: impl FnMut(StepResult<'a>)) {
    let waiting = Mutex::new(names.iter());
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..MAX_PARALLEL_STEPS {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(name) = next() {
                    sender.send(run_step(xtask, name)).ok(); // the receiver below lives until all steps have ended
                }
            });
        }
        drop(sender);
        ended.iter().for_each(&mut on_end);
    });
}

/// Runs a step in a process of its own, which is killed after the time limit.
pub fn run_step<'a>(xtask: &Path, name: &'a str) -> StepResult<'a> {
    let start = Instant::now();
    let (passed, output) = attempt(xtask, name).unwrap_or_else(|error| (false, format!("{error:#}\n")));
    StepResult { name, passed, time: start.elapsed(), output }
}

/// Runs a step. Returns whether it passed, and its output.
fn attempt(xtask: &Path, name: &str) -> Result<(bool, String)> {
    let mut log: File = tempfile::tempfile()?;
    let mut xtask = Command::new(xtask);
    xtask.args(["test", name]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let mut child = xtask.spawn().with_context(|| format!("cannot run the step {name}"))?;
    let limit = if name == LONG_STEP.0 { LONG_STEP.1 } else { STEP_LIMIT };
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= end {
            process_tree::kill(child.id());
            child.wait()?;
            break None;
        }
        thread::sleep(POLL);
    };
    let mut output = Vec::new();
    log.rewind()?;
    log.read_to_end(&mut output)?;
    let mut output = String::from_utf8_lossy(&output).into_owned();
    if status.is_none() {
        output += &format!("{name} was stopped after {} min\n", limit.as_secs() / 60);
    }
    Ok((status.is_some_and(|status| status.success()), output))
}
