//! Runs an app in Rust that loads models with `weightstream::web`, with and without a cache and workers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use weightstream::internals::native::Reader;
use weightstream_cli::serve::Server;

use crate::cases;
use crate::engine::Engine;
use crate::failures;
use crate::webdriver::Browser;
use crate::worker_test;
use xtask::linted::linted_in_suite;
use xtask::project::Project;
use xtask::wasm_target::{self, TARGET};
use xtask::{command, workspace};

const MODEL: &str = "/model/model.apr";
const TENSORS: usize = 6;

struct Page {
    browser: Browser,
    origin: String,
    /// The digests of the tensors.
    digests: Value,
    byte_length: u64,
    /// Automated windows of WebKitGTK have no cache that lasts.
    keeps_cache: bool,
}

type Check = fn(&Page) -> Result<()>;

const CHECKS: [(&str, Check); 7] = [
    ("without a cache and workers", loads_without_workers),
    ("with workers", loads_with_workers),
    ("with the cache", loads_from_the_cache),
    ("with a cache object", loads_from_an_object),
    ("an object that is no cache", refuses_an_object_that_is_no_cache),
    ("with a worker of the app", uses_a_worker_of_the_app),
    ("on a page that forbids workers", reports_that_workers_are_forbidden),
];

pub fn run(project: &Project) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let built = build(project, &folder)?;
    let model = worker_test::model(TENSORS);
    let byte_length = model.len() as u64;
    std::fs::write(folder.path().join("model.apr"), &model)?;
    let digests = digests(model)?;
    let server = Server::new()
        .mount("/", project.root.join("tests/app/page"))
        .mount("/pkg", built)
        .mount(MODEL, folder.path().join("model.apr"));
    let server = server.bind("127.0.0.1:0")?.spawn();
    for engine in Engine::ALL {
        let page = Page {
            browser: Browser::launch(project, engine)?,
            origin: server.url(),
            digests: digests.clone(),
            byte_length,
            keeps_cache: engine != Engine::WebKit,
        };
        for (name, check) in CHECKS.into_iter().filter(|(name, _)| cases::is_wanted(name)) {
            failures::keep(check(&page), &page.browser, engine, name)?;
        }
        println!("{engine}: {} tests of an app in Rust passed", CHECKS.len());
    }
    Ok(())
}

/// Compiles the app. Returns the folder with its module, glue and script of workers.
fn build(project: &Project, folder: &TempDir) -> Result<PathBuf> {
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["build", "--locked", "--package", "app-test", "--target", TARGET]);
    command::run(linted_in_suite(&mut cargo).current_dir(&project.root))?;
    let module = project.target.join(TARGET).join("debug/app_test.wasm");
    let built = folder.path().join("pkg");
    let mut bindgen = Command::new(workspace::build(project, "xtask-bindgen")?);
    command::run(bindgen.args([&module, Path::new("app_test"), &built]))?;
    Ok(built)
}

/// The digests of all tensors, by mmap.
fn digests(model: Vec<u8>) -> Result<Value> {
    let reader = Reader::from_bytes(vec![("model.apr".to_owned(), model)])?;
    let mut digests = Map::new();
    for tensor in reader.tensors() {
        let digest = Sha256::digest(reader.tensor_slice(&tensor.name)?);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        digests.insert(tensor.name.clone(), hex.into());
    }
    Ok(Value::Object(digests))
}

impl Page {
    fn open(&self, name: &str) -> Result<()> {
        self.browser.open(&format!("{}/{name}", self.origin))?;
        let title = self.browser.evaluate("globalThis.started")?;
        ensure!(title == "started", "the app has the title {title}");
        Ok(())
    }

    /// Loads the model, and checks its bytes.
    fn load(&self, cache: &str, workers: usize) -> Result<Value> {
        let loaded = self.browser.evaluate(&format!("load('{MODEL}', '{cache}', {workers})"))?;
        self.check_bytes(&loaded)?;
        Ok(loaded)
    }

    fn check_bytes(&self, loaded: &Value) -> Result<()> {
        ensure!(loaded.get("digests") == Some(&self.digests), "{loaded}");
        Ok(())
    }

    /// Whether all bytes came from the cache.
    fn check_is_cached(&self, loaded: &Value) -> Result<()> {
        let bytes = (number(loaded, "fromCache"), number(loaded, "received"));
        ensure!(bytes == (self.byte_length, 0), "{bytes:?} bytes came from the cache and from the network");
        Ok(())
    }
}

fn loads_without_workers(page: &Page) -> Result<()> {
    page.open("")?;
    let loaded = page.load("none", 0)?;
    ensure!(names(&loaded).is_empty(), "workers were started: {loaded}");
    check_is_complete(&loaded)?;
    ensure!(number(&loaded, "received") == page.byte_length, "{loaded}");
    Ok(())
}

fn loads_with_workers(page: &Page) -> Result<()> {
    page.open("")?;
    let loaded = page.load("none", 2)?;
    ensure!(names(&loaded) == ["weightstream", "weightstream"], "{loaded}");
    check_is_complete(&loaded)?;
    page.browser.evaluate("ready(2)")?; // workers that are not ready get no work
    let loaded = page.load("none", 2)?;
    ensure!(names(&loaded).is_empty(), "workers were started again: {loaded}");
    ensure!(number(&loaded, "answers") >= TENSORS as u64, "the workers did not decode: {loaded}");
    check_is_complete(&loaded)
}

fn loads_from_the_cache(page: &Page) -> Result<()> {
    page.open("")?;
    page.browser.evaluate("clearCache()")?;
    let cold = page.load("auto", 0)?;
    check_is_complete(&cold)?;
    ensure!(number(&cold, "received") == page.byte_length, "{cold}");
    let url = format!("{}{MODEL}", page.origin);
    let cached = page.browser.evaluate("cached()")?;
    let found = (cached.pointer("/0/0"), cached.pointer("/0/2"));
    ensure!(found == (Some(&json!(url)), Some(&json!(page.byte_length))), "the cache has {cached}");
    page.check_is_cached(&page.load("auto", 0)?)?;
    if page.keeps_cache {
        page.open("")?;
        page.check_is_cached(&page.load("auto", 2)?)?;
    }
    page.browser.evaluate(&format!("deleteCached('{MODEL}')"))?;
    let cached = page.browser.evaluate("cached()")?;
    ensure!(cached == json!([]), "the cache has {cached}");
    let cold = page.load("auto", 0)?;
    ensure!(number(&cold, "received") == page.byte_length, "{cold}");
    page.browser.evaluate("clearCache()")?;
    let cached = page.browser.evaluate("cached()")?;
    ensure!(cached == json!([]), "the cache has {cached}");
    Ok(())
}

fn loads_from_an_object(page: &Page) -> Result<()> {
    page.open("")?;
    let loaded = page.browser.evaluate(&format!("loadIntoObject('{MODEL}')"))?;
    let [cold, warm] = ["cold", "warm"].map(|name| loaded.get(name).cloned().unwrap_or_default());
    page.check_bytes(&cold)?;
    page.check_bytes(&warm)?;
    check_is_complete(&cold)?;
    page.check_is_cached(&warm)
}

fn refuses_an_object_that_is_no_cache(page: &Page) -> Result<()> {
    page.open("")?;
    let message = page.browser.evaluate(&format!("error('{MODEL}', {{ get() {{}} }})"))?;
    ensure!(message.as_str().is_some_and(|message| message.contains("get, set, delete and keys")), "{message}");
    Ok(())
}

fn uses_a_worker_of_the_app(page: &Page) -> Result<()> {
    page.open("")?;
    page.browser.evaluate("useOwnWorker()")?;
    let loaded = page.load("auto", 2)?;
    ensure!(names(&loaded).len() == 3, "not one worker for the cache and two for tensors: {loaded}");
    check_is_complete(&loaded)?;
    page.check_is_cached(&page.load("auto", 2)?)?;
    page.browser.evaluate("clearCache()").map(drop)
}

/// The cache is then in IndexedDB.
fn reports_that_workers_are_forbidden(page: &Page) -> Result<()> {
    page.open("forbidden.html")?;
    let loaded = page.load("auto", 2)?;
    for name in ["cacheError", "workersError"] {
        let error = loaded.get(name).and_then(Value::as_str).unwrap_or_default();
        ensure!(error.contains("worker"), "{name}: {loaded}");
        ensure!(!error.contains("weightstream.worker.js"), "{name} names a file of the npm package: {error}");
    }
    ensure!(number(&loaded, "received") == page.byte_length, "{loaded}");
    Ok(())
}

/// Whether nothing that was asked for was missing.
fn check_is_complete(loaded: &Value) -> Result<()> {
    let is_null = |name: &str| loaded.get(name).is_some_and(Value::is_null);
    ensure!(is_null("cacheError") && is_null("workersError"), "{loaded}");
    Ok(())
}

fn names(loaded: &Value) -> Vec<&str> {
    loaded.get("names").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn number(loaded: &Value, name: &str) -> u64 {
    loaded.get(name).and_then(Value::as_u64).unwrap_or(u64::MAX)
}
