//! `cargo xtask setup`: installs all tools that other tasks would otherwise install on demand.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::project::Project;
use crate::{browser, cargo_tools, demo, npm, wasm_target};

/// Finds or installs every tool. The slow ones (apt, four cargo installs, npm) run concurrently.
pub fn all(project: &Project) -> Result<()> {
    let start = Instant::now();
    let parts: [fn(&Project) -> Result<()>; 12] = [
        |project| wasm_target::ready(project).map(drop),
        |project| cargo_tools::cargo_deny(project).map(drop),
        |project| cargo_tools::mdbook(project).map(drop),
        |project| npm::ready(project).map(drop),
        |project| demo::node_modules(project).map(drop),
        |_| browser::chromium().map(drop),
        |_| browser::chromedriver().map(drop),
        |_| browser::firefox().map(drop),
        |project| cargo_tools::geckodriver(project).map(drop),
        |_| browser::webkit_driver().map(drop),
        |_| browser::xvfb().map(drop),
        |_| browser::nginx().map(drop),
    ];
    let failures: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = parts.iter().map(|part| scope.spawn(|| part(project))).collect();
        let ended = running.into_iter().map(|part| part.join().unwrap_or_else(|_| bail!("a part of setup panicked")));
        ended.filter_map(Result::err).collect()
    });
    for failure in &failures {
        eprintln!("setup: {failure:#}");
    }
    if !failures.is_empty() {
        bail!("{} of {} tools are missing", failures.len(), parts.len());
    }
    eprintln!("setup: all tools ready after {:.1} s, in {}", start.elapsed().as_secs_f64(), project.tools.display());
    Ok(())
}

/// Finds a tool or installs it. Prints whether it was found or installed, and how long that took.
pub fn ready<T: Display>(name: &str, find: impl Fn() -> Option<T>, install: impl FnOnce() -> Result<()>) -> Result<T> {
    let start = Instant::now();
    if let Some(tool) = find() {
        if first_time(name) {
            eprintln!("setup: {name}: found in {:.1} s ({tool})", start.elapsed().as_secs_f64());
        }
        return Ok(tool);
    }
    eprintln!("setup: {name}: installing …");
    install().with_context(|| format!("cannot install {name}"))?;
    let tool = find().with_context(|| format!("{name} was installed, but is not found or does not work"))?;
    first_time(name);
    eprintln!("setup: {name}: installed in {:.1} s ({tool})", start.elapsed().as_secs_f64());
    Ok(tool)
}

/// A hash of the contents of files, for the name of a folder that is built from them.
pub fn fingerprint(files: impl IntoIterator<Item = PathBuf>) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Whether a tool was not reported before. Tasks may request the same tool several times.
fn first_time(name: &str) -> bool {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    REPORTED.lock().is_ok_and(|mut reported| reported.insert(name.to_owned()))
}
