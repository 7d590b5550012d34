//! nginx, a server that is not ours: the command and the package in three browsers load from it, however it is set up.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use weightstream_cli::serve::Server as Site;

use crate::engine::Engine;
use crate::listing::Listing;
use crate::nginx::{Answered, Nginx};
use crate::trap_test::traps::Load;
use crate::trap_test::traps::model::{FILE, TENSORS};
use crate::trap_test::{Outcome, load, sha256_of};
use crate::webdriver::Browser;
use xtask::project::Project;
use xtask::{command, model, package};

/// One tensor by itself, then all of them.
const LOADS: [Load; 2] = [Load::One("third"), Load::Many(&["first", "second", "third", "fourth"])];

struct Location {
    path: &'static str,
    /// The code of the error in which a load from another origin ends, and natively; none where all arrives.
    in_browsers: Option<&'static str>,
    natively: Option<&'static str>,
    /// What nginx must have answered.
    answers: fn(&[Answered]) -> bool,
}

const LOCATIONS: [Location; 10] = [
    Location { path: "exposed", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "hidden", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "denied", in_browsers: Some("NETWORK"), ..LOADS_ALL },
    Location { path: "whole", answers: |answered| are_all(answered, 200), ..LOADS_ALL },
    // Natively nothing undoes an encoding that was not asked for.
    Location { path: "gzip", natively: Some("UNSUPPORTED"), ..LOADS_ALL },
    Location { path: "gzip-hidden", natively: Some("UNSUPPORTED"), ..LOADS_ALL },
    Location { path: "slow", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "busy", answers: |answered| answered.iter().any(|one| one.status == 503), ..LOADS_ALL },
    Location { path: "undated", answers: |answered| are_all(answered, 206), ..LOADS_ALL },
    Location { path: "forbidden", in_browsers: Some("HTTP"), natively: Some("HTTP"), answers: is_one_403 },
];

const LOADS_ALL: Location = Location { path: "", in_browsers: None, natively: None, answers: |_| true };

pub fn run(project: &Project) -> Result<()> {
    let program = model::command_line(project)?;
    let package = package::build(project)?;
    let page = project.root.join("tests/traps/page");
    let site = Site::new().mount("/", page).mount("/pkg", package).bind("127.0.0.1:0")?.spawn();
    let nginx = Nginx::start(project, "m.safetensors", &FILE)?;
    let mut told = Vec::new();
    for location in &LOCATIONS {
        let outcome = answered_meanwhile(&nginx, location, |url| natively(&program, url, location.natively));
        told.push(outcome.with_context(|| format!("{}, by the command", location.path))?);
    }
    println!("by the command: {}", told.join(", "));
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/", site.url()))?;
        told.clear();
        for location in &LOCATIONS {
            let outcome = answered_meanwhile(&nginx, location, |url| {
                check(&load(&browser, "spring", url, &LOADS)?, location.in_browsers)
            });
            told.push(outcome.with_context(|| format!("{}, in {engine}", location.path))?);
        }
        println!("in {engine}: {}", told.join(", "));
    }
    Ok(())
}

/// Loads from a location, checks how nginx answered, and tells it in short.
fn answered_meanwhile(nginx: &Nginx, location: &Location, load: impl Fn(&str) -> Result<()>) -> Result<String> {
    let before = nginx.answered()?.len();
    load(&nginx.url(&format!("/{}/m.safetensors", location.path)))?;
    sleep(Duration::from_millis(100)); // until the last answer is in the log
    let answered: Vec<_> = nginx.answered()?.into_iter().skip(before).collect();
    let is_here = |one: &Answered| one.path.starts_with(&format!("/{}/", location.path)) && one.method == "GET";
    ensure!(!answered.is_empty() && answered.iter().all(is_here), "nginx was asked {answered:?}");
    ensure!((location.answers)(&answered), "nginx answered {answered:?}");
    let bytes: usize = answered.iter().map(|one| one.body_bytes).sum();
    let encoded = if answered.iter().any(|one| one.is_encoded) { " encoded" } else { "" };
    Ok(format!("{} {} × {:.1} MB{encoded}", location.path, answered.len(), bytes as f64 / 1e6))
}

fn natively(program: &Path, url: &str, code: Option<&str>) -> Result<()> {
    let weightstream = |arguments: &[&str]| command::output(Command::new(program).args(arguments).arg(url));
    if let Some(code) = code {
        let error = weightstream(&["verify"]).err().context("it verifies")?.to_string();
        ensure!(error.contains(&format!("error[{code}]")), "{error}");
        return Ok(());
    }
    weightstream(&["verify"])?;
    let found = weightstream(&["inspect", "--json", "--sha256"])?;
    let count = Listing::parse(&found)?.tensors.len();
    ensure!(count == TENSORS.len(), "{count} tensors");
    for (name, _) in TENSORS.iter() {
        ensure!(found.contains(&sha256_of(name)), "{name} has other bytes");
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
