//! The cache, in a real browser: what it promises, counted by what the server sent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use weightstream_cli::serve::{Running, Server};

use crate::chromium::Chromium;
use crate::page::Page;
use xtask::demo::Traffic;
use xtask::expected::{self, ExpectedTensor};
use xtask::project::Project;
use xtask::synthetic::{self, Size};
use xtask::{model, package};

mod contents;
mod credentials;
mod engines;
mod naming;
mod own;
pub mod pages;
mod promises;
mod workers;

use pages::{Pages, Storage};

type Promise = fn(&mut Chromium, &Site) -> Result<()>;

/// Of these the bounds tell something of a large model only: they allow for what is on its way.
const OF_MUCH: [(&str, Promise); 4] = [
    ("a second load fetches nothing", promises::fetches_nothing_twice),
    ("a tensor that was loaded yesterday is there today", promises::keeps_single_tensors),
    ("a load that was killed goes on where it was", promises::goes_on_after_a_kill),
    ("two tabs at once fetch the file once", promises::shares_between_tabs),
];

const OF_ANY: [(&str, Promise); 14] = [
    ("what is kept loads without a server", promises::loads_without_a_server),
    ("and, as rows, into memory that the caller keeps, or many times at once", promises::loads_in_every_way),
    ("a file that changed on the server is loaded anew", promises::notices_a_change),
    ("a flipped bit is noticed and fetched again", promises::notices_damage),
    ("what fails its checksum is not kept", promises::keeps_nothing_wrong),
    ("tensors that another model has, too, are not fetched again", contents::finds_tensors),
    ("nor are those of which the caller knows the digest", contents::finds_pinned_tensors),
    ("nor files of which a manifest knows it", contents::finds_files_of_a_manifest),
    ("nor those of which the caller does", contents::finds_pinned_files),
    ("where one of those is damaged, the same file of the server will do", contents::goes_on_with_the_same_file),
    ("a small quota fails no load", promises::bears_a_small_quota),
    ("the oldest model makes room for a new one", promises::evicts_the_oldest),
    ("what is kept can be listed and deleted", promises::lists_and_deletes),
    ("also while the worker of a closed page still has it open", promises::clears_what_was_just_closed),
];

/// Puts `load`, `one` and the package into the page.
const SCRIPT: &str = include_str!("page.js");

/// What is served: pages, and at another origin the models.
pub struct Site {
    pages: Pages,
    pub weights: PathBuf,
    expected: Vec<ExpectedTensor>,
    pub byte_length: u64,
    storage: Storage,
}

/// A server of its own for one promise, and so URLs of its own.
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
    let mut browser = Chromium::launch()?;
    let of_small = [OF_ANY.as_slice(), &own::PROMISES, &credentials::PROMISES, &naming::PROMISES, &workers::PROMISES];
    let runs = [
        (Storage::Files, &weights, OF_MUCH.to_vec()),
        (Storage::Files, &small, of_small.concat()),
        (Storage::Database, &weights, OF_MUCH.to_vec()),
        (Storage::Database, &small, OF_ANY.to_vec()),
    ];
    let mut broken = 0;
    for (storage, weights, promises) in runs {
        let site = Site::new(&package, weights, storage)?;
        println!("in Chromium, {:.0} MB kept in {storage}:", site.byte_length as f64 / 1e6);
        broken += promises.iter().filter(|(name, promise)| !holds(&mut browser, &site, name, *promise)).count();
    }
    drop(browser);
    ensure!(broken == 0, "{broken} promises of the cache are broken");
    engines::run(project, &package, &weights, &small)
}

fn holds(browser: &mut Chromium, site: &Site, name: &str, promise: Promise) -> bool {
    let start = Instant::now();
    let outcome = promise(browser, site).and_then(|()| forget_everything(browser, site));
    let seconds = start.elapsed().as_secs_f64();
    match &outcome {
        Ok(()) => println!("  ok      {seconds:>5.1} s  {name}"),
        Err(error) => println!("  FAILED  {seconds:>5.1} s  {name}: {error:#}"),
    }
    outcome.is_ok()
}

impl Site {
    /// Pages whose workers have but this storage.
    fn new(package: &Path, weights: &Path, storage: Storage) -> Result<Self> {
        Ok(Site {
            pages: Pages::new(package, storage)?,
            weights: weights.to_owned(),
            expected: expected::tensors(weights)?,
            byte_length: fs::metadata(weights)?.len(),
            storage,
        })
    }

    /// A page with the package, as after a visitor came back.
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
        ensure!(*tensors == expected, "the tensors are not those of the file");
        Ok(())
    }

    /// Loads everything in a page of its own, and checks every byte.
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

    /// What was sent since the last time, once nothing more is: requests and bytes.
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

fn forget_everything(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut page = site.page(browser)?;
    let left = page.evaluate("clearCache().then(cachedBytes)")?;
    ensure!(left == 0, "{left} bytes are left after clearCache()");
    Ok(())
}
