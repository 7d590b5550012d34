//! Steps of the suite side by side: most of what a step in a browser does is wait.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result};

/// With three, promises about time would wait for a core on the two that most machines of continuous integration have.
const LANES: usize = 2;

/// What came of a step.
pub struct Ended<'a> {
    pub name: &'a str,
    pub passed: bool,
    pub time: Duration,
    /// What it wrote, in the order in which it wrote it.
    pub said: String,
}

/// Runs the steps of these names, the first ones first, each in a process of its own, and gives each as it ends.
pub fn run<'a>(names: &[&'a str], mut tell: impl FnMut(Ended<'a>)) {
    let waiting = Mutex::new(names.iter());
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..LANES {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(name) = next() {
                    sender.send(step(name)).ok(); // the receiver below waits for all
                }
            });
        }
        drop(sender);
        ended.iter().for_each(&mut tell);
    });
}

fn step(name: &str) -> Ended<'_> {
    let start = Instant::now();
    let (passed, said) = attempt(name).unwrap_or_else(|error| (false, format!("{error:#}\n")));
    Ended { name, passed, time: start.elapsed(), said }
}

/// Whether it passed, and what it said.
fn attempt(name: &str) -> Result<(bool, String)> {
    let mut log: File = tempfile::tempfile()?;
    let mut chore = Command::new(env::current_exe()?);
    chore.args(["test", name]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let status = chore.status().with_context(|| format!("cannot run the step {name}"))?;
    let mut said = Vec::new();
    log.rewind()?;
    log.read_to_end(&mut said)?;
    Ok((status.success(), String::from_utf8_lossy(&said).into_owned()))
}
