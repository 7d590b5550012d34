//! Runs steps of the suite in parallel, because steps in a browser spend most of their time waiting.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result};

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

/// Starts the steps with these names in order, each in its own process. Calls `on_end` whenever a step ends.
pub fn run<'a>(names: &[&'a str], mut on_end: impl FnMut(StepResult<'a>)) {
    let waiting = Mutex::new(names.iter());
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..MAX_PARALLEL_STEPS {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(name) = next() {
                    sender.send(run_step(name)).ok(); // the receiver below lives until all steps have ended
                }
            });
        }
        drop(sender);
        ended.iter().for_each(&mut on_end);
    });
}

fn run_step(name: &str) -> StepResult<'_> {
    let start = Instant::now();
    let (passed, output) = attempt(name).unwrap_or_else(|error| (false, format!("{error:#}\n")));
    StepResult { name, passed, time: start.elapsed(), output }
}

/// Runs a step. Returns whether it passed, and its output.
fn attempt(name: &str) -> Result<(bool, String)> {
    let mut log: File = tempfile::tempfile()?;
    let mut xtask = Command::new(env::current_exe()?);
    xtask.args(["test", name]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let status = xtask.status().with_context(|| format!("cannot run the step {name}"))?;
    let mut output = Vec::new();
    log.rewind()?;
    log.read_to_end(&mut output)?;
    Ok((status.success(), String::from_utf8_lossy(&output).into_owned()))
}
