//! Workers in real browsers: they must decode and digest like the page, and loads must succeed without them.

mod in_worker;

use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use crate::cases;
use crate::crash_test;
use crate::engine::Engine;
use crate::failures;
use crate::parity;
use crate::trap_test::traps::bytes::{Apr, Entry, noise};
use crate::webdriver::Browser;
use xtask::bundle::{self, Bundler};
use xtask::project::Project;
use xtask::{command, npm};

/// A model of tensors in LZ4 blocks.
const MODEL: &str = "/made/model.apr";
/// A model of tensors in quantized and other dtypes.
const QUANTIZED: &str = "/gguf/quant.gguf";
const TENSORS: usize = 6;
const TENSOR_BYTES: usize = 1 << 20;

/// The time limit of an abort. An abort that waits for the workers of this test would take 5 seconds, after which they
/// count as unresponsive.
const PROMPT_MS: f64 = 1_000.0;

pub fn run(project: &Project) -> Result<()> {
    let package = crash_test::with_hooks(project, "worker-test")?;
    let made = tempfile::tempdir()?;
    fs::write(made.path().join("model.apr"), model(TENSORS))?;
    fs::write(made.path().join("long.apr"), model(4 * TENSORS))?;
    // A package without the worker file, as a bundler that does not know it would produce.
    let bare = tempfile::tempdir()?;
    for file in fs::read_dir(&package)? {
        let file = file?;
        fs::copy(file.path(), bare.path().join(file.file_name()))?;
    }
    fs::write(package.join(bundle::WORKER), Bundler::new(project, &package)?.worker()?)?;
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
    // The engines run concurrently, because most cases make a page wait.
    let url = &*server.url();
    thread::scope(|scope| {
        let run_engine = |engine| scope.spawn(move || run_engine(project, engine, url));
        Engine::ALL
            .map(run_engine)
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("the test panicked")))
    })
}

/// Runs every test case in one browser.
fn run_engine(project: &Project, engine: Engine, url: &str) -> Result<()> {
    let fixtures = project.root.join("tests/fixtures");
    let page = Page { browser: Browser::launch(project, engine)?, origin: url.to_owned() };
    let cases = CASES.iter().chain(&in_worker::CASES).filter(|(name, _)| cases::is_wanted(name));
    for (name, check) in cases.clone() {
        failures::keep(check(&page), &page.browser, engine, name)?;
    }
    let (files, tasks) = failures::keep(every_fixture(&page, &fixtures), &page.browser, engine, "every fixture")?;
    let in_worker = in_worker::every_fixture(&page, &fixtures);
    let loader_files = failures::keep(in_worker, &page.browser, engine, "every fixture in a worker")?;
    println!(
        "{engine}: {} test cases passed; {files} files identical to mmap with {tasks} worker tasks; \
         {loader_files} with loaders in workers",
        cases.count()
    );
    Ok(())
}

struct Page {
    browser: Browser,
    origin: String,
}

type Check = fn(&Page) -> Result<()>;

const CASES: [(&str, Check); 10] = [
    ("a worker that crashes does not fail a load", |page| page.survives("fails")),
    ("a worker that stops responding does not fail a load", |page| page.survives("is silent")),
    ("a page that forbids workers loads without them", |page| {
        page.goes_without("forbidden.html", "/pkg/weightstream.js")
    }),
    ("a page without the worker file loads without workers", |page| {
        page.goes_without("index.html", "/bare/weightstream.js")
    }),
    ("an abort with queued jobs settles promptly, and workers continue with other jobs", Page::aborts),
    ("workers write to shared memory, and the caller's memory is never detached", Page::shares),
    ("workers convert tensors to floats", Page::converts),
    ("the default is one worker on two cores, and four on six or more", Page::counts_cores),
    ("workers and the browser digest large tensors, even if a worker crashes", Page::digests),
    ("a loader in a worker starts its own workers, and invalid options are rejected", Page::nests_and_refuses),
];

impl Page {
    fn fresh(&self, page: &str, expression: &str) -> Result<Value> {
        self.browser.open(&format!("{}/page/{page}", self.origin))?;
        self.browser.evaluate(expression)
    }

    fn survives(&self, failure: &str) -> Result<()> {
        let result = self.fresh("index.html", &format!("survives({}, {})", json!(MODEL), json!(failure)))?;
        let is = |name: &str| result.get(name) == Some(&json!(true));
        ensure!(is("same") && is("happened") && is("again"), "{result}");
        check_error(result.get("error"), "a worker")
    }

    fn goes_without(&self, page: &str, package: &str) -> Result<()> {
        let result = self.fresh(page, &format!("goesWithout({}, {})", json!(MODEL), json!(package)))?;
        let is = |name: &str, value: Value| result.get(name) == Some(&value);
        ensure!(is("same", json!(true)) && is("ready", json!(0)) && is("unhandled", json!([])), "{result}");
        ensure!(is("before", json!("none")), "{result}"); // no workers were requested
        check_error(result.get("error"), "worker")
    }

    fn aborts(&self) -> Result<()> {
        let result = self.fresh("index.html", &format!("aborts({})", json!(MODEL)))?;
        let is = |name: &str, value: Value| result.get(name) == Some(&value);
        let number = |name: &str| result.get(name).and_then(Value::as_f64).unwrap_or(-1.0);
        ensure!(is("outcome", json!("enough")) && is("same", json!(true)), "{result}");
        ensure!((0.0..PROMPT_MS).contains(&number("ms")) && number("dropped") >= 1.0, "{result}");
        // Workers complete the tasks in their queues, at most a few MiB.
        let done = TENSORS as f64..=2.0 * TENSORS as f64;
        ensure!(done.contains(&number("done")), "{result}");
        Ok(())
    }

    fn shares(&self) -> Result<()> {
        let result = self.fresh("index.html", &format!("shares({})", json!(MODEL)))?;
        let all = json!({ "isThere": true, "same": true, "byWorkers": true, "isGiven": true, "sameGiven": true });
        ensure!(result == all, "{result}");
        Ok(())
    }

    fn converts(&self) -> Result<()> {
        let result = self.fresh("index.html", &format!("converts({}, {})", json!(QUANTIZED), json!(MODEL)))?;
        ensure!(result == json!({ "same": true, "tasks": true, "several": true }), "{result}");
        Ok(())
    }

    /// Of up to 32 MiB, workers get the buffer and let the browser digest it. More is sent in chunks, as it arrives.
    fn digests(&self) -> Result<()> {
        for (mebibytes, in_chunks) in [(9, false), (33, true)] {
            let call = format!("digests({}, {mebibytes} << 20)", json!(MODEL));
            let result = self.fresh("index.html", &call)?;
            let is = |name: &str, value: &str| result.get(name).and_then(Value::as_str) == Some(value);
            let number = |name: &str| result.get(name).and_then(Value::as_u64);
            ensure!(is("right", "sha256 true") && is("wrong", "CHECKSUM large"), "{result}");
            ensure!(is("lost", "sha256 true") && is("lostAndWrong", "CHECKSUM large"), "{result}");
            ensure!(result.get("isLost") == Some(&json!(true)), "{result}");
            ensure!(is("rightByBrowser", "sha256 true") && is("wrongByBrowser", "CHECKSUM large"), "{result}");
            ensure!(number("messagesByBrowser") == Some(0), "{result}");
            ensure!((number("chunks") > Some(50)) == in_chunks, "{result}");
            ensure!((number("digests") == Some(2)) != in_chunks, "{result}");
        }
        Ok(())
    }

    fn counts_cores(&self) -> Result<()> {
        let result = self.fresh("index.html", &format!("byDefault({}, [1, 2, 3, 5, 6, 64])", json!(MODEL)))?;
        ensure!(result == json!([0, 1, 1, 3, 4, 4]), "{result}");
        Ok(())
    }

    fn nests_and_refuses(&self) -> Result<()> {
        let nested = self.fresh("index.html", &format!("nested({})", json!(MODEL)))?;
        ensure!(nested == json!(true), "{nested}");
        let result = self.fresh("index.html", &format!("refuses({})", json!(MODEL)))?;
        let codes =
            json!({ "many": "INVALID_ARGUMENT", "negative": "INVALID_ARGUMENT", "withoutVectors": "UNSUPPORTED" });
        ensure!(result == codes, "{result}");
        Ok(())
    }
}

/// Checks that `stats.workersError` is a sentence that contains `named`.
fn check_error(result: Option<&Value>, named: &str) -> Result<()> {
    let error = result.and_then(Value::as_str).unwrap_or_default();
    ensure!(error.contains(named) && error.contains(' '), "stats.workersError is {error:?}");
    Ok(())
}

/// Compares every fixture between workers and mmap. Returns the number of fixtures and of tasks that workers did.
fn every_fixture(page: &Page, fixtures: &Path) -> Result<(usize, u64)> {
    ensure!(page.fresh("index.html", &format!("started({})", json!(MODEL)))? == true, "stats.workersError is set");
    let models = parity::models(fixtures)?;
    for (path, native) in &models {
        let url = format!("/{path}");
        let in_browser =
            page.browser.evaluate(&format!("({})({}, {{ workers: 2 }})", parity::IN_THE_PAGE, json!(url)))?;
        parity::compare(&in_browser, native).with_context(|| path.clone())?;
    }
    let tasks = page.browser.evaluate("tasksDone()")?.as_u64().unwrap_or(0);
    ensure!(tasks > models.len() as u64, "workers did only {tasks} tasks");
    Ok((models.len(), tasks))
}

/// Builds the worker like some bundlers do: as a classic script that imports another one. `broken.classic.js` imports
/// a missing script.
fn classic_worker(project: &Project, package: &Path) -> Result<()> {
    let mut esbuild = npm::tool(&npm::ready(project)?, "esbuild/bin/esbuild");
    esbuild.args([bundle::WORKER, "--bundle", "--format=iife", "--log-level=error"]);
    esbuild.args(["--define:import.meta.url=\"\"", "--outfile=bundled.classic.js"]).current_dir(package);
    command::run(&mut esbuild)?;
    fs::write(package.join("worker.classic.js"), "importScripts('bundled.classic.js');")?;
    Ok(fs::write(package.join("broken.classic.js"), "importScripts('nowhere.js');")?)
}

pub(crate) fn model(tensors: usize) -> Vec<u8> {
    // Each byte is repeated, so that the data is compressible.
    let tensor = |seed: usize| -> Vec<u8> {
        noise(seed as u64, TENSOR_BYTES / 4).into_iter().flat_map(|byte| [byte; 4]).collect()
    };
    let entries = (0..tensors).map(|at| Entry::lz4(&format!("t{at}"), 7, &[TENSOR_BYTES as u64], &tensor(at + 1)));
    Apr::new(entries.collect()).build()
}
