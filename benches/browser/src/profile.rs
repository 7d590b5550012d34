//! Profiles a case with the browser's sampling profiler, with function names of the module.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;

use crate::cases::Case;
use crate::measure::run_case;
use e2e::page::Page;
use xtask::package::{self, MODULE};
use xtask::project::Project;

const INTERVAL_US: u64 = 250;

/// The maximum number of functions to print.
const LINES: usize = 25;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    nodes: Vec<Node>,
    samples: Vec<u64>,
    time_deltas: Vec<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: u64,
    call_frame: Frame,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    function_name: String,
}

/// A copy of the package whose module has a name section.
pub(super) fn named_package(project: &Project, package: &Path) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir_in(&project.target)?;
    for entry in fs::read_dir(package)? {
        let path = entry?.path();
        if !path.is_file() {
            continue; // the folder of the documentation
        }
        fs::copy(&path, folder.path().join(path.file_name().unwrap_or_default()))?;
    }
    fs::copy(package::named_module(project), folder.path().join(MODULE))?;
    Ok(folder)
}

/// Runs the case and prints its profile.
pub(super) fn print(page: &mut Page, case: &Case, to: &Path) -> Result<()> {
    run_case(page, case)?; // compiles the functions to profile
    begin(page)?;
    let ms = run_case(page, case)?;
    end(page, &format!("{}: {ms:.0} ms", case.title), to)
}

/// Starts to profile the page's thread.
pub(super) fn begin(page: &mut Page) -> Result<()> {
    page.call("Profiler.enable", json!({}))?;
    page.call("Profiler.setSamplingInterval", json!({ "interval": INTERVAL_US }))?;
    page.call("Profiler.start", json!({}))?;
    Ok(())
}

/// Prints the functions that took the most time on the page's thread, and writes the profile for the browser's
/// developer tools.
pub(super) fn end(page: &mut Page, title: &str, to: &Path) -> Result<()> {
    let stopped = page.call("Profiler.stop", json!({}))?;
    let profile = stopped.get("profile").context("the browser returned no profile")?;
    fs::write(to, profile.to_string())?;
    let profile: Profile = serde_json::from_value(profile.clone()).context("cannot parse the profile")?;

    let names: HashMap<u64, &str> =
        profile.nodes.iter().map(|node| (node.id, node.call_frame.function_name.as_str())).collect();
    let mut times: HashMap<&str, f64> = HashMap::new();
    for (sample, delta) in profile.samples.iter().zip(&profile.time_deltas) {
        *times.entry(names.get(sample).copied().unwrap_or("?")).or_default() += *delta as f64 / 1000.0;
    }
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    println!("\n{title}; {}", to.display());
    for (name, ms) in times.iter().take(LINES) {
        println!("{ms:>9.1} ms  {name}");
    }
    Ok(())
}
