//! `cargo xtask setup`: everything that the other chores would otherwise install when they come to need it.

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
use crate::{browser, cargo_tools, npm, wasm_target};

/// Finds or installs every tool. What takes long (apt, two cargo installs, npm) runs at the same time.
pub fn all(project: &Project) -> Result<()> {
    let start = Instant::now();
    let parts: [fn(&Project) -> Result<()>; 12] = [
        |project| wasm_target::ready(project).map(drop),
        |project| cargo_tools::wasm_bindgen(project).map(drop),
        |project| cargo_tools::wasm_pack(project).map(drop),
        |project| cargo_tools::cargo_deny(project).map(drop),
        |project| npm::ready(project).map(drop),
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
    eprintln!("setup: all there after {:.1} s, in {}", start.elapsed().as_secs_f64(), project.tools.display());
    Ok(())
}

/// Looks for a tool, installs it where it is missing, and says which of the two it was and how long it took.
pub fn ready<T: Display>(name: &str, find: impl Fn() -> Option<T>, install: impl FnOnce() -> Result<()>) -> Result<T> {
    let start = Instant::now();
    if let Some(tool) = find() {
        if first_time(name) {
            eprintln!("setup: {name}: found in {:.1} s ({tool})", start.elapsed().as_secs_f64());
        }
        return Ok(tool);
    }
    eprintln!("setup: {name}: installing …");
    install().with_context(|| format!("{name} could not be installed"))?;
    let tool = find().with_context(|| format!("{name} was installed, and yet it is not found or does not work"))?;
    first_time(name);
    eprintln!("setup: {name}: installed in {:.1} s ({tool})", start.elapsed().as_secs_f64());
    Ok(tool)
}

/// Stands for the content of some files in the name of what is made from them.
pub fn fingerprint(files: impl IntoIterator<Item = PathBuf>) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Chores that build on one another ask for the same tools; one line about each is enough.
fn first_time(name: &str) -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    SAID.lock().is_ok_and(|mut said| said.insert(name.to_owned()))
}
