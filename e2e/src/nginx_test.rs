//! Loads a model from nginx in various configurations, with the command line and in three browsers.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use weightstream_cli::serve::Server as Site;

use crate::engine::Engine;
use crate::failures;
use crate::listing::Listing;
use crate::nginx::{Answered, Nginx};
use crate::trap_test::traps::Load;
use crate::trap_test::traps::model::{FILE, TENSORS};
use crate::trap_test::{Outcome, load, sha256_of};
use crate::webdriver::Browser;
use xtask::project::Project;
use xtask::{command, model, package};

/// One single tensor, then all of them.
const LOADS: [Load; 2] = [Load::One("third"), Load::Many(&["first", "second", "third", "fourth"])];

struct Location {
    path: &'static str,
    /// The expected error codes of a cross-origin load in a browser and of a native load. `None` if the load succeeds.
    browser_error: Option<&'static str>,
    native_error: Option<&'static str>,
    /// Checks the responses of nginx.
    answers: fn(&[Answered]) -> bool,
}

const LOCATIONS: [Location; 10] = [
    Location { path: "exposed", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "hidden", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "denied", browser_error: Some("NETWORK"), ..LOADS_ALL },
    Location { path: "whole", answers: |answered| are_all(answered, 200), ..LOADS_ALL },
    // The native client does not decode a content encoding that it did not request.
    Location { path: "gzip", native_error: Some("UNSUPPORTED"), ..LOADS_ALL },
    Location { path: "gzip-hidden", native_error: Some("UNSUPPORTED"), ..LOADS_ALL },
    Location { path: "slow", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "busy", answers: |answered| answered.iter().any(|one| one.status == 503), ..LOADS_ALL },
    Location { path: "undated", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "forbidden", browser_error: Some("HTTP"), native_error: Some("HTTP"), answers: is_one_403 },
];

const LOADS_ALL: Location = Location { path: "", browser_error: None, native_error: None, answers: |_| true };

pub fn run(project: &Project) -> Result<()> {
    let program = model::command_line(project)?;
    let package = package::build(project)?;
    let page = project.root.join("tests/traps/page");
    let site = Site::new().mount("/", page).mount("/pkg", package).bind("127.0.0.1:0")?.spawn();
    let nginx = Nginx::start(project, "m.safetensors", &FILE)?;
    let mut summaries = Vec::new();
    for location in &LOCATIONS {
        let outcome = check_location(&nginx, location, |url| check_cli(&program, url, location.native_error));
        summaries.push(outcome.with_context(|| format!("{}, command line", location.path))?);
    }
    println!("command line: {}", summaries.join(", "));
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/", site.url()))?;
        summaries.clear();
        for location in &LOCATIONS {
            let outcome = check_location(&nginx, location, |url| {
                check(&load(&browser, "loadAll", url, &LOADS)?, location.browser_error)
            });
            summaries.push(failures::keep(outcome, &browser, engine, location.path)?);
        }
        println!("in {engine}: {}", summaries.join(", "));
    }
    Ok(())
}

/// Loads from a location and checks the responses of nginx. Returns a summary.
fn check_location(nginx: &Nginx, location: &Location, load: impl Fn(&str) -> Result<()>) -> Result<String> {
    let before = nginx.answered()?.len();
    load(&nginx.url(&format!("/{}/m.safetensors", location.path)))?;
    sleep(Duration::from_millis(100)); // until the last answer is in the log
    let answered: Vec<_> = nginx.answered()?.into_iter().skip(before).collect();
    let is_here = |one: &Answered| one.path.starts_with(&format!("/{}/", location.path)) && one.method == "GET";
    ensure!(!answered.is_empty() && answered.iter().all(is_here), "unexpected requests: {answered:?}");
    ensure!((location.answers)(&answered), "unexpected responses: {answered:?}");
    let bytes: usize = answered.iter().map(|one| one.body_bytes).sum();
    let encoded = if answered.iter().any(|one| one.is_encoded) { " encoded" } else { "" };
    Ok(format!("{} {} × {:.1} MB{encoded}", location.path, answered.len(), bytes as f64 / 1e6))
}

fn check_cli(program: &Path, url: &str, code: Option<&str>) -> Result<()> {
    let weightstream = |arguments: &[&str]| command::output(Command::new(program).args(arguments).arg(url));
    if let Some(code) = code {
        let error = weightstream(&["verify"]).err().context("the model verifies")?.to_string();
        ensure!(error.contains(&format!("error[{code}]")), "{error}");
        return Ok(());
    }
    weightstream(&["verify"])?;
    let found = weightstream(&["inspect", "--json", "--sha256"])?;
    let count = Listing::parse(&found)?.tensors.len();
    ensure!(count == TENSORS.len(), "{count} tensors");
    for (name, _) in TENSORS.iter() {
        ensure!(found.contains(&sha256_of(name)), "{name} has wrong bytes");
    }
    Ok(())
}

fn check(outcome: &Outcome, code: Option<&str>) -> Result<()> {
    match (&outcome.failure, code) {
        (Some(failure), Some(code)) => ensure!(failure.code == code, "{failure:?}"),
        (None, Some(code)) => bail!("it should fail with {code}"),
        (_, None) => outcome.check(&LOADS, None)?,
    }
    Ok(())
}

fn are_all(answered: &[Answered], status: u16) -> bool {
    answered.iter().all(|one| one.status == status)
}

fn is_one_403(answered: &[Answered]) -> bool {
    answered.len() == 1 && are_all(answered, 403)
}
