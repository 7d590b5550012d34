//! Checks the JavaScript without a browser: its unit tests, which run in Node.js, and a linter.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::project::Project;
use crate::{command, npm, sources};

/// The folders with unit tests: the package and the demo page.
const FOLDERS: [&str; 2] = ["src/js/", "www/"];

const LIMIT: Duration = Duration::from_secs(120);

pub fn check(project: &Project) -> Result<()> {
    let tools = npm::ready(project)?;
    let mut biome = npm::tool(&tools, "@biomejs/biome/bin/biome");
    biome.args(["lint", "--error-on-warnings"]).current_dir(&project.root);
    command::quiet(&mut biome, LIMIT).context("the linter of biome.json reports defects")?;

    let mut tests = sources::files(&project.root)?;
    tests.retain(|path| FOLDERS.iter().any(|folder| path.starts_with(folder)) && path.ends_with(".test.js"));
    for folder in FOLDERS {
        ensure!(tests.iter().any(|path| path.starts_with(folder)), "there are no unit tests in {folder}");
    }
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=dot"]).args(&tests).current_dir(&project.root);
    command::quiet(&mut node, LIMIT).context("unit tests of the JavaScript fail")?;
    println!("js: the tests of {} files pass", tests.len());
    Ok(())
}
