//! Tests of the cache in a real browser. They count the requests and bytes that the server sends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use weightstream_cli::serve::{Running, Server};

use crate::cases::is_wanted;
use crate::chromium::Chromium;
use crate::failures;
use crate::page::Page;
use xtask::demo::Traffic;
use xtask::expected::{self, ExpectedTensor};
use xtask::project::Project;
use xtask::synthetic::{self, Size};
use xtask::{model, package};

mod cancelled;
mod cases;
mod contents;
mod credentials;
mod cross_origin;
mod engines;
mod folders;
mod naming;
pub mod pages;
pub mod revisions;
mod user_cache;
mod workers;

use pages::{Pages, Storage};

type TestCase = fn(&mut Chromium, &Site) -> Result<()>;
type Case = (&'static str, TestCase);

/// Cases whose bounds are meaningful only for a large model, because they allow for bytes in flight.
const LARGE_MODEL_CASES: [(&str, TestCase); 4] = [
    ("a second load downloads nothing", cases::fetches_nothing_twice),
    ("a single tensor is cached across visits", cases::keeps_single_tensors),
    ("a load resumes after its page is closed", cases::resumes_after_kill),
    ("two concurrent tabs download the file once", cases::shares_between_tabs),
];

const SMALL_MODEL_CASES: [(&str, TestCase); 19] = [
    ("cached files load without a server", cases::loads_without_a_server),
    ("cached files load as rows, into the caller's memory, and concurrently", cases::loads_in_every_way),
    ("a file that changed on the server is downloaded again", cases::notices_a_change),
    ("a flipped bit is detected and downloaded again", cases::notices_damage),
    ("data with a wrong checksum is not cached", cases::rejects_corrupt_downloads),
    ("tensors that another model shares are not downloaded again", contents::finds_tensors),
    ("tensors are found by digests that the caller passes", contents::finds_pinned_tensors),
    ("files are found by the digests of a manifest", contents::finds_files_of_a_manifest),
    ("a new revision costs only its changed tensors", contents::finds_unchanged_tensors_of_a_revision),
    ("a new revision costs only the changed parts of a tensor", contents::copies_unchanged_parts_of_a_tensor),
    ("a new revision with small changes everywhere costs differences", contents::computes_tensors_from_differences),
    ("a load after one with wrong copies succeeds", contents::recovers_from_wrong_copies),
    ("files are found by digests that the caller passes", contents::finds_pinned_files),
    ("a damaged cached file is completed from the server", contents::falls_back_to_the_server),
    ("a small quota does not fail a load", cases::handles_small_quota),
    ("the least recently used model is evicted for a new one", cases::evicts_the_oldest),
    ("cached files can be listed and deleted", cases::lists_and_deletes),
    ("the cache can be cleared while the worker of a closed page is open", cases::clears_while_a_worker_is_open),
    ("a model in a smaller encoding is not downloaded again", contents::finds_tensors_in_another_encoding),
];

/// Adds `load`, `one` and the exports of the package to the page.
const SCRIPT: &str = include_str!("page.js");

/// The server of the pages, and the model that other origins serve.
pub struct Site {
    pages: Pages,
    pub weights: PathBuf,
    expected: Vec<ExpectedTensor>,
    pub byte_length: u64,
    storage: Storage,
}

/// A model server for one test case. Its URLs are unique.
struct Models {
    server: Running,
    traffic: Arc<Traffic>,
    folder: TempDir,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    tensors: BTreeMap<String, String>,
    stats: Stats,
    from_cache: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    requests: u64,
    bytes_received: u64,
    bytes_from_cache: u64,
    cache_error: Option<String>,
}

pub fn run(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    let weights = model::original(project)?;
    let folder = tempfile::tempdir()?;
    synthetic::write(folder.path(), &Size::SMALL)?;
    let small = folder.path().join("model.safetensors");
    let small_cases = [
        SMALL_MODEL_CASES.as_slice(),
        &cancelled::CASES,
        &user_cache::CASES,
        &folders::CASES,
        &credentials::CASES,
        &cross_origin::CASES,
        &naming::CASES,
        &workers::CASES,
    ];
    // Both kinds of storage at the same time, in browsers of their own, because most cases make a page wait.
    let runs = [(Storage::Files, small_cases.concat()), (Storage::Database, SMALL_MODEL_CASES.to_vec())];
    let (package, weights, small) = (&*package, &*weights, &*small);
    let failed = thread::scope(|scope| {
        let run = |(storage, cases): (Storage, Vec<Case>)| {
            scope.spawn(move || run_cases(package, storage, weights, small, &cases))
        };
        let outcomes = runs.map(run).map(|thread| thread.join().unwrap_or_else(|_| bail!("the test panicked")));
        outcomes.into_iter().sum::<Result<usize>>()
    })?;
    ensure!(failed == 0, "{failed} test cases of the cache failed");
    engines::run(project, package, weights, small)
}

/// Runs all cases with one kind of storage. Returns how many failed.
fn run_cases(package: &Path, storage: Storage, weights: &Path, small: &Path, cases: &[Case]) -> Result<usize> {
    let mut browser = Chromium::launch()?;
    let mut failed = 0;
    for (weights, cases) in [(weights, LARGE_MODEL_CASES.as_slice()), (small, cases)] {
        let site = Site::new(package, weights, storage)?;
        println!("Chromium, {:.0} MB cached in {storage}", site.byte_length as f64 / 1e6);
        let wanted = cases.iter().filter(|(name, _)| is_wanted(name));
        failed += wanted.filter(|(name, case)| !passes(&mut browser, &site, name, *case)).count();
    }
    Ok(failed)
}

fn passes(browser: &mut Chromium, site: &Site, name: &str, case: TestCase) -> bool {
    let start = Instant::now();
    let outcome = case(browser, site).and_then(|()| clear_cache(browser, site));
    let outcome = failures::keep(outcome, browser, "Chromium", &format!("{name}, cached in {}", site.storage));
    let seconds = start.elapsed().as_secs_f64();
    match &outcome {
        Ok(()) => println!("  ok      {seconds:>5.1} s  {name}, cached in {}", site.storage),
        Err(error) => println!("  FAILED  {seconds:>5.1} s  {error:#}"),
    }
    outcome.is_ok()
}

impl Site {
    /// Serves pages whose workers have only this storage.
    fn new(package: &Path, weights: &Path, storage: Storage) -> Result<Self> {
        Ok(Site {
            pages: Pages::new(package, storage)?,
            weights: weights.to_owned(),
            expected: expected::tensors(weights)?,
            byte_length: fs::metadata(weights)?.len(),
            storage,
        })
    }

    /// Opens a new page with the package, as on a later visit.
    pub fn page<'a>(&self, browser: &'a mut Chromium) -> Result<Page<'a>> {
        let mut page = browser.new_page()?;
        page.open(&self.pages.url())?;
        page.evaluate(SCRIPT)?;
        Ok(page)
    }

    fn models(&self) -> Result<Models> {
        let folder = tempfile::tempdir()?;
        fs::copy(&self.weights, folder.path().join("model.safetensors"))?;
        let traffic = Arc::new(Traffic::default());
        let counted = Arc::clone(&traffic);
        let server = Server::new().mount("/", folder.path()).on_request(move |exchange| counted.count(exchange));
        Ok(Models { server: server.bind("127.0.0.1:0")?.spawn(), traffic, folder })
    }

    fn compare(&self, tensors: &BTreeMap<String, String>, expected: &[ExpectedTensor]) -> Result<()> {
        let expected: BTreeMap<_, _> = expected.iter().map(|t| (t.name.clone(), t.sha256.clone())).collect();
        ensure!(*tensors == expected, "the loaded tensors differ from the file");
        Ok(())
    }

    /// Loads everything in a new page and compares every byte.
    fn load(&self, browser: &mut Chromium, models: &Models) -> Result<Report> {
        let report = load(&mut self.page(browser)?, &models.url())?;
        self.compare(&report.tensors, &self.expected)?;
        Ok(report)
    }
}

impl Models {
    fn url(&self) -> String {
        format!("{}/model.safetensors", self.server.url())
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("model.safetensors")
    }

    /// Waits until no more is sent. Returns the requests and bytes since the last call.
    fn sent(&self) -> (u64, u64) {
        let mut before = None;
        while before != Some(self.traffic.bytes()) {
            before = Some(self.traffic.bytes());
            std::thread::sleep(Duration::from_millis(200));
        }
        self.traffic.take()
    }
}

fn load(page: &mut Page, url: &str) -> Result<Report> {
    report(page, &format!("load({})", json!(url)))
}

fn report(page: &mut Page, expression: &str) -> Result<Report> {
    let report = page.evaluate(expression)?;
    Ok(serde_json::from_str(report.as_str().context("the page reports nothing")?)?)
}

fn clear_cache(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut page = site.page(browser)?;
    let left = page.evaluate("clearCache().then(cachedBytes)")?;
    ensure!(left == 0, "{left} bytes are left after clearCache()");
    Ok(())
}
