//! Workers in real browsers: what they decode and digest is what the page would have made of it, and no load fails
//! for want of them.

mod in_worker;

use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use crate::crash_test;
use crate::engine::Engine;
use crate::parity;
use crate::trap_test::traps::bytes::{Apr, Entry, noise};
use crate::webdriver::Browser;
use xtask::project::Project;
use xtask::{command, npm};

/// A model of tensors in LZ4 blocks.
const MODEL: &str = "/made/model.apr";
const TENSORS: usize = 6;
const TENSOR_BYTES: usize = 1 << 20;

/// An abort that waits for a worker would wait for ever here.
const PROMPT_MS: f64 = 1_000.0;

pub fn run(project: &Project) -> Result<()> {
    let package = crash_test::with_hooks(project, "worker-test")?;
    let made = tempfile::tempdir()?;
    fs::write(made.path().join("model.apr"), model(TENSORS))?;
    fs::write(made.path().join("long.apr"), model(4 * TENSORS))?;
    // Without the worker's file, as when a bundler was not told of it.
    let bare = tempfile::tempdir()?;
    for file in fs::read_dir(&package)? {
        let file = file?;
        fs::copy(file.path(), bare.path().join(file.file_name()))?;
    }
    fs::copy(project.root.join("src/js/weightstream.worker.js"), package.join("weightstream.worker.js"))?;
    classic_worker(project, &package)?;
    let fixtures = project.root.join("tests/fixtures");
    let server = Server::new()
        .mount("/", &fixtures)
        .mount("/page", project.root.join("tests/workers/page"))
        .mount("/pkg", &package)
        .mount("/bare", bare.path())
        .mount("/made", made.path())
        .isolated(true)
        .bind("127.0.0.1:0")?
        .spawn();
    // Side by side: most promises let somebody wait.
    let url = &*server.url();
    thread::scope(|scope| {
        let keep_all = |engine| scope.spawn(move || keep_all(project, engine, url));
        Engine::ALL
            .map(keep_all)
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("the test panicked")))
    })
}

/// Checks every promise in one browser.
fn keep_all(project: &Project, engine: Engine, url: &str) -> Result<()> {
    let fixtures = project.root.join("tests/fixtures");
    let page = Page { browser: Browser::launch(project, engine)?, origin: url.to_owned() };
    let promises = PROMISES.iter().chain(&in_worker::PROMISES);
    for (promise, check) in promises.clone() {
        check(&page).with_context(|| format!("{engine}: {promise}"))?;
    }
    let (files, tasks) = every_fixture(&page, &fixtures).with_context(|| engine.to_string())?;
    let of_loaders = in_worker::every_fixture(&page, &fixtures).with_context(|| format!("{engine}, in a worker"))?;
    println!(
        "{engine}: {} promises hold; {files} files the same, by {tasks} tasks of workers; \
         {of_loaders} by loaders in workers",
        promises.count()
    );
    Ok(())
}

struct Page {
    browser: Browser,
    origin: String,
}

type Check = fn(&Page) -> Result<()>;

const PROMISES: [(&str, Check); 8] = [
    ("a worker that dies fails no load", |page| page.survives("fails")),
    ("a worker that falls silent fails no load", |page| page.survives("is silent")),
    ("a page that forbids workers loads without", |page| page.goes_without("forbidden.html", "/pkg/weightstream.js")),
    ("a page that cannot find the worker's file loads without", |page| {
        page.goes_without("index.html", "/bare/weightstream.js")
    }),
    ("an abort with jobs waiting settles promptly, and the workers go on with others", Page::aborts),
    ("shared memory is written by workers, and a caller's own memory is never detached", Page::shares),
    ("large tensors are digested by workers, and also where one dies", Page::digests),
    ("a worker that loads has workers of its own; what cannot be is refused", Page::nests_and_refuses),
];

impl Page {
    fn fresh(&self, page: &str, expression: &str) -> Result<Value> {
        self.browser.open(&format!("{}/page/{page}", self.origin))?;
        self.browser.evaluate(expression)
    }

    fn survives(&self, fate: &str) -> Result<()> {
        let told = self.fresh("index.html", &format!("survives({}, {})", json!(MODEL), json!(fate)))?;
        let is = |name: &str| told.get(name) == Some(&json!(true));
        ensure!(is("same") && is("happened") && is("again"), "{told}");
        says_why(told.get("error"), "a worker")
    }

    fn goes_without(&self, page: &str, package: &str) -> Result<()> {
        let told = self.fresh(page, &format!("goesWithout({}, {})", json!(MODEL), json!(package)))?;
        let is = |name: &str, value: Value| told.get(name) == Some(&value);
        ensure!(is("same", json!(true)) && is("ready", json!(0)) && is("unhandled", json!([])), "{told}");
        ensure!(is("before", json!("none")), "{told}"); // none were asked for
        says_why(told.get("error"), "worker")
    }

    fn aborts(&self) -> Result<()> {
        let told = self.fresh("index.html", &format!("aborts({})", json!(MODEL)))?;
        let is = |name: &str, value: Value| told.get(name) == Some(&value);
        let number = |name: &str| told.get(name).and_then(Value::as_f64).unwrap_or(-1.0);
        ensure!(is("outcome", json!("enough")) && is("same", json!(true)), "{told}");
        ensure!((0.0..PROMPT_MS).contains(&number("ms")) && number("dropped") >= 1.0, "{told}");
        // What was in their queues already they do, which is some MiB at the most.
        let done = TENSORS as f64..=2.0 * TENSORS as f64;
        ensure!(done.contains(&number("done")), "{told}");
        Ok(())
    }

    fn shares(&self) -> Result<()> {
        let told = self.fresh("index.html", &format!("shares({})", json!(MODEL)))?;
        let all = json!({ "isThere": true, "same": true, "byWorkers": true, "isGiven": true, "sameGiven": true });
        ensure!(told == all, "{told}");
        Ok(())
    }

    fn digests(&self) -> Result<()> {
        let told = self.fresh("index.html", &format!("digests({})", json!(MODEL)))?;
        let is = |name: &str, value: &str| told.get(name).and_then(Value::as_str) == Some(value);
        ensure!(is("right", "sha256 true") && is("lost", "sha256 true"), "{told}");
        ensure!(is("wrong", "CHECKSUM large") && is("lostAndWrong", "CHECKSUM large"), "{told}");
        ensure!(told.get("chunks").and_then(Value::as_u64) > Some(50), "{told}");
        Ok(())
    }

    fn nests_and_refuses(&self) -> Result<()> {
        let nested = self.fresh("index.html", &format!("nested({})", json!(MODEL)))?;
        ensure!(nested == json!(true), "{nested}");
        let told = self.fresh("index.html", &format!("refuses({})", json!(MODEL)))?;
        let codes =
            json!({ "many": "INVALID_ARGUMENT", "negative": "INVALID_ARGUMENT", "withoutVectors": "UNSUPPORTED" });
        ensure!(told == codes, "{told}");
        Ok(())
    }
}

/// Checks what `stats.workersError` says where workers did not do what they should.
fn says_why(told: Option<&Value>, named: &str) -> Result<()> {
    let error = told.and_then(Value::as_str).unwrap_or_default();
    ensure!(error.contains(named) && error.contains(' '), "stats.workersError is {error:?}");
    Ok(())
}

/// Every fixture by workers and through mmap. How many there are, and how many tasks workers did.
fn every_fixture(page: &Page, fixtures: &Path) -> Result<(usize, u64)> {
    ensure!(page.fresh("index.html", &format!("started({})", json!(MODEL)))? == true, "stats.workersError is there");
    let models = parity::models(fixtures)?;
    for (path, natively) in &models {
        let url = format!("/{path}");
        let in_browser =
            page.browser.evaluate(&format!("({})({}, {{ workers: 2 }})", parity::IN_THE_PAGE, json!(url)))?;
        parity::compare(&in_browser, natively).with_context(|| path.clone())?;
    }
    let tasks = page.browser.evaluate("tasksDone()")?.as_u64().unwrap_or(0);
    ensure!(tasks > models.len() as u64, "workers did {tasks} tasks only");
    Ok((models.len(), tasks))
}

/// The worker as some bundlers write it: a classic script, which imports another one. `broken.classic.js` imports one
/// that is not there.
fn classic_worker(project: &Project, package: &Path) -> Result<()> {
    let esbuild = npm::tool(&npm::ready(project)?, "esbuild/bin/esbuild");
    let mut bundle = esbuild;
    bundle.args(["weightstream.worker.js", "--bundle", "--format=iife", "--log-level=error"]);
    bundle.args(["--define:import.meta.url=\"\"", "--outfile=bundled.classic.js"]).current_dir(package);
    command::run(&mut bundle)?;
    fs::write(package.join("worker.classic.js"), "importScripts('bundled.classic.js');")?;
    Ok(fs::write(package.join("broken.classic.js"), "importScripts('nowhere.js');")?)
}

fn model(tensors: usize) -> Vec<u8> {
    // Each byte some times, so that there is something to compress.
    let tensor = |seed: usize| -> Vec<u8> {
        noise(seed as u64, TENSOR_BYTES / 4).into_iter().flat_map(|byte| [byte; 4]).collect()
    };
    let entries = (0..tensors).map(|at| Entry::lz4(&format!("t{at}"), 7, &[TENSOR_BYTES as u64], &tensor(at + 1)));
    Apr::new(entries.collect()).build()
}
