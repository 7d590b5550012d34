//! Runs the network traps of the native tests, and some that concern only browsers, against the package in Chromium,
//! Firefox and WebKitGTK. Page and server have different origins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weightstream_cli::serve::Server as Site;

use crate::browser_traps;
use crate::cases;
use crate::engine::Engine;
use crate::failures;
use crate::webdriver::Browser;
use traps::model::TENSORS;
use traps::server::{Reply, Server};
use traps::{Load, Trap};
use xtask::package;
use xtask::project::Project;

/// Collects the traps in a list.
macro_rules! traps {
    ($($name:ident: $trap:expr),* $(,)?) => {
        pub(crate) fn all() -> Vec<(&'static str, super::Trap)> {
            vec![$((stringify!($name), $trap)),*]
        }
    };
}

#[path = "../../tests/traps/mod.rs"]
pub mod traps;

/// When a connection breaks, browsers discard bytes that were received but not yet delivered.
const LOST_PER_CUT_BYTES: usize = 1 << 20;

/// What a page reports about its loads.
#[derive(Debug, Deserialize)]
pub struct Outcome {
    /// The names of the loaded tensors, and the SHA-256 of their bytes.
    arrived: Vec<(String, String)>,
    pub failure: Option<Failure>,
    /// Inconsistent values in progress events.
    impossible: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Failure {
    pub code: String,
    status: Option<u16>,
    tensor: Option<String>,
    url: Option<String>,
    pub message: String,
}

pub fn run(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    let page = project.root.join("tests/traps/page");
    let site = Site::new().mount("/", page).mount("/pkg", package).bind("127.0.0.1:0")?.spawn();
    // The engines run concurrently, because most traps make the loader wait.
    let url = &*site.url();
    let failures = thread::scope(|scope| {
        let start = |engine| (engine, scope.spawn(move || run_engine(project, engine, url)));
        Engine::ALL.map(start).into_iter().try_fold(0, |sum, (engine, thread)| {
            let failures = thread.join().unwrap_or_else(|_| bail!("the test panicked"));
            failures.map(|failures| sum + failures).with_context(|| engine.to_string())
        })
    })?;
    ensure!(failures == 0, "{failures} traps failed");
    Ok(())
}

/// Runs every trap in one browser and returns how many failed. With loaders in workers, only one browser, the fastest,
/// runs the traps shared with the native tests. All browsers run those specific to browsers.
fn run_engine(project: &Project, engine: Engine, site: &str) -> Result<usize> {
    let browser = Browser::launch(project, engine)?;
    let on_the_page = run_traps(&browser, &engine.to_string(), &format!("{site}/"), all())?;
    let network_traps = if engine == Engine::Firefox { all() } else { Vec::new() };
    let in_workers = format!("{engine}, in workers");
    let in_workers = run_traps(&browser, &in_workers, &format!("{site}/?in-worker"), network_traps)?;
    Ok(on_the_page + in_workers)
}

fn run_traps(browser: &Browser, engine: &str, page: &str, network_traps: Vec<(&str, Trap)>) -> Result<usize> {
    let start = Instant::now();
    browser.open(page)?;
    let (mut count, mut failures) = (0, 0);
    let mut record = |name: &str, outcome: Result<()>| {
        count += 1;
        if let Err(error) = outcome {
            println!("{name} FAILED: {error:#}");
            failures += 1;
        }
    };
    for (name, trap) in network_traps.into_iter().filter(|(name, _)| cases::is_wanted(name)) {
        record(name, failures::keep(run_trap(browser, trap), browser, engine, name));
    }
    for (name, trap) in browser_traps::ALL.into_iter().filter(|(name, _)| cases::is_wanted(name)) {
        record(name, failures::keep(trap(browser), browser, engine, name));
    }
    let in_workers = browser.evaluate("loadersInWorkers()")?.as_u64().unwrap_or_default();
    ensure!((in_workers > 0) == page.ends_with("in-worker"), "{in_workers} workers for loaders were started");
    let bodies = if browser.evaluate("hasByteStreams()")? == true { "byte streams" } else { "plain streams" };
    let seconds = start.elapsed().as_secs_f64();
    println!("{engine}: {count} traps over {bodies}, {in_workers} workers for loaders, {seconds:.1} s");
    Ok(failures)
}

fn all() -> Vec<(&'static str, Trap)> {
    use traps::{changed_files, connections, responses, retries, whole_responses};
    let lists = [responses::all(), connections::all(), changed_files::all(), retries::all(), whole_responses::all()];
    lists.into_iter().flatten().collect()
}

/// Runs one trap.
fn run_trap(browser: &Browser, trap: Trap) -> Result<()> {
    let script = trap.script;
    let server = Server::new(move |request| exposed(script(request)));
    let url = own_url(&server);
    let patient = format!("((url, loads) => loadAll(url, loads, {{}}, {}))", trap.stall_timeout_ms);
    let outcome = load(browser, &patient, &url, trap.loads)?;
    let failing = if trap.codes.is_empty() { None } else { trap.loads.last() };
    outcome.check(trap.loads, failing.copied())?;
    match &outcome.failure {
        None => ensure!(trap.codes.is_empty(), "it should fail with {:?}", trap.codes),
        Some(failure) => {
            ensure!(trap.codes.contains(&&*failure.code), "it should fail with {:?}: {failure:?}", trap.codes);
            ensure!(failure.url.as_deref() == Some(&*url), "the URL is missing: {failure:?}");
            ensure!(trap.status.is_none() || trap.status == failure.status, "another status: {failure:?}");
            if let Some(Load::One(name)) = failing {
                ensure!(failure.tensor.as_deref() == Some(name), "another tensor: {failure:?}");
            }
        }
    }
    let requests = server.requests();
    let requested: Vec<_> = requests.iter().map(|request| (&*request.method, request.range.clone())).collect();
    ensure!(requests.iter().all(|request| request.method == "GET"), "it sent {requested:?}");
    let fits = |count| requests.len() == count || (outcome.failure.is_some() && requests.len() < count);
    // A request that is aborted in the browser's queue never reaches the server.
    ensure!(trap.requests.is_none_or(fits), "{} requests: {requested:?}", requests.len());
    let sent = server.sent();
    let lost = requests.len().saturating_sub(1) * LOST_PER_CUT_BYTES;
    ensure!(trap.sent.is_none_or(|most| sent <= most + lost), "{sent} bytes were sent");
    if let Some((number, at_least_ms)) = trap.min_delay {
        let request = |number: usize| requests.get(number).context("there were fewer requests");
        let waited = request(number)?.at - request(number - 1)?.at;
        ensure!(waited >= Duration::from_millis(at_least_ms), "it waited {waited:?}");
    }
    Ok(())
}

/// A unique URL. The system reuses ports, and the cache would return a file that was cached under the same URL.
pub(crate) fn own_url(server: &Server) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    server.url(&format!("/{}/m.safetensors", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Opens a model in the page and loads tensors, with the page's function of this name.
pub(crate) fn load(browser: &Browser, function: &str, url: &str, loads: &[Load]) -> Result<Outcome> {
    let loads: Vec<Value> = loads
        .iter()
        .map(|load| match load {
            Load::One(name) => json!(name),
            Load::Many(names) => json!(names),
        })
        .collect();
    let outcome = browser.evaluate(&format!("{function}({}, {})", json!(url), json!(loads)))?;
    serde_json::from_value(outcome).context("cannot parse the report of the page")
}

impl Outcome {
    /// Checks that every requested tensor was loaded bit-exact, except for those of the failing load.
    pub(crate) fn check(&self, loads: &[Load], failing: Option<Load>) -> Result<()> {
        let count = loads.len() - usize::from(failing.is_some());
        let names = loads.iter().take(count).flat_map(|load| match load {
            Load::One(name) => std::slice::from_ref(name),
            Load::Many(names) => names,
        });
        let expected: Vec<_> = names.map(|name| ((*name).to_owned(), sha256_of(name))).collect();
        if self.failure.is_some() && failing.is_none() && !loads.is_empty() {
            bail!("the load failed: {:?}", self.failure);
        }
        ensure!(self.arrived == expected, "{:?} were loaded instead of {expected:?}: {:?}", self.arrived, self.failure);
        ensure!(self.impossible.is_empty(), "inconsistent progress: {}", self.impossible.join(", "));
        Ok(())
    }
}

/// The SHA-256 of a tensor of the model.
pub fn sha256_of(name: &str) -> String {
    let tensor = TENSORS.iter().find(|(known, _)| *known == name);
    tensor.map(|(_, data)| HEXLOWER.encode(&Sha256::digest(data))).unwrap_or_default()
}

/// Adds CORS headers that let pages of other origins read a reply and its relevant headers.
pub(crate) fn exposed(reply: Reply) -> Reply {
    let names = "Content-Range, Content-Encoding, ETag, Last-Modified, Retry-After";
    readable(reply).with("Access-Control-Expose-Headers", names)
}

/// Adds the CORS header that lets pages of other origins read a reply, but only safelisted headers.
pub(crate) fn readable(reply: Reply) -> Reply {
    reply.with("Access-Control-Allow-Origin", "*")
}
