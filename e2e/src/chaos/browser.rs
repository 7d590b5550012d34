//! Chaos tests in a browser: pages that close during a load, concurrent tabs, exceeded quotas and the faulty server of
//! the native test. Bytes that are cached during one visit must be correct in the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::calls::Calls;
use super::check::{Check, FileCheck};
use super::faults::Fault;
use super::faulty_server::Server;
use super::model::Model;
use super::random::Random;
use super::{FAULT_PERCENTS, MAX_EXCESS_PERCENT};
use crate::cache_test::pages::{Pages, Storage};
use crate::chromium::Chromium;
use crate::failures;
use crate::page::Page;
use xtask::package;
use xtask::project::Project;

/// How many bytes a closed page may lose: on each of 4 connections, an incomplete chunk and one in flight.
const LOST_BYTES: u64 = 4 * (2 << 20);

/// Limits WebAssembly memory to 8 MiB, so that in some scenarios the module runs out of memory during a load.
const LOW_MEMORY_FLAG: &str = "--js-flags=--wasm-max-mem-pages=128";

/// Headers are read in steps of this many bytes.
const MIN_EXCESS_BYTES: u64 = 128 << 10;

/// Opens frames. Like tabs, frames are separate documents, each with its own module instance and worker.
const TABS: &str = include_str!("tabs.js");

const SCRIPT: &str = include_str!("visit.js");

/// What a page reports about its calls.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    tensors: Vec<LoadedTensor>,
    files: Vec<OpenedFile>,
    errors: Vec<(String, String)>,
    aborted: u64,
    bytes_from_cache: u64,
}

#[derive(Deserialize)]
struct LoadedTensor {
    name: String,
    rows: Option<(u64, u64)>,
    shard: Option<usize>,
    sha256: String,
}

#[derive(Deserialize)]
struct OpenedFile {
    name: String,
    reads: Vec<Read>,
}

/// What was read of a range of a file.
#[derive(Deserialize)]
struct Read {
    start: u64,
    end: u64,
    length: u64,
    sha256: String,
}

#[derive(Default)]
struct Totals {
    scenarios: u64,
    visits: u64,
    closed: u64,
    tensors: u64,
    aborted: u64,
    errors: BTreeMap<String, u64>,
    faults: BTreeMap<Fault, u64>,
    full: u64,
    low_memory: u64,
    payload: u64,
    sent: u64,
    received: u64,
    from_cache: u64,
}

/// One model on one server, and a random sequence of visits that load it.
struct Scenario<'a> {
    pages: &'a Pages,
    model: Arc<Model>,
    server: Server,
    /// Every visit loads the whole model, so that cached bytes must not be downloaded again.
    is_strict: bool,
    is_low_memory: bool,
    random: Random,
}

/// Runs scenarios, from the one with the number `first` on, until the time is up and prints a summary. Fails at the
/// first wrong byte.
pub fn run(project: &Project, seed: u64, first: u64, time: Duration) -> Result<()> {
    let package = package::build(project)?;
    let sites = [Storage::Files, Storage::Database].map(|storage| Ok((storage, Pages::new(&package, storage)?)));
    let sites = sites.into_iter().collect::<Result<Vec<_>>>()?;
    println!("chaos in Chromium: seed {seed}, {} s", time.as_secs());
    let (mut browser, mut totals, start) = (Chromium::launch()?, Totals::default(), Instant::now());
    let mut low_memory = Chromium::launch_with(&[LOW_MEMORY_FLAG])?;
    while start.elapsed() < time {
        let number = first + totals.scenarios;
        let mut random = Random::new(seed).fork(!number);
        let (storage, pages) = sites.get(random.within(0..2) as usize).context("there is no site")?;
        let model = Arc::new(Model::new(&mut random)?);
        let fault_percent = random.pick(&FAULT_PERCENTS).unwrap_or(0);
        let server = Server::new(Arc::clone(&model), random.clone(), fault_percent);
        let (is_strict, is_low_memory) = (random.percent(50), random.percent(15));
        let mut scenario = Scenario { pages, is_strict, is_low_memory, model, server, random };
        let what = format!("scenario {number} of seed {seed}, cached in {storage}: {}", scenario.model.name);
        let browser = if is_low_memory { &mut low_memory } else { &mut browser };
        failures::keep(scenario.run(browser, &mut totals), browser, "Chromium", &what)?;
        totals.low_memory += u64::from(is_low_memory);
        totals.scenarios += 1;
    }
    totals.print();
    ensure!(totals.tensors > 0 && totals.from_cache > 0, "nothing was loaded, or nothing came from the cache");
    Ok(())
}

impl Scenario<'_> {
    fn run(&mut self, browser: &mut Chromium, totals: &mut Totals) -> Result<()> {
        let quota = self.random.percent(25).then(|| self.random.within(1 << 20..12 << 20));
        let (mut received, mut lost, mut extra_loads) = (0, 0, 0);
        for _ in 0..self.random.within(1..5) {
            let mut page = self.page(browser)?;
            set_quota(&mut page, self.pages, quota)?;
            let tabs = self.random.within(1..3);
            page.evaluate(&format!("({TABS})({tabs}, {})", json!(SCRIPT)))?;
            totals.visits += tabs;
            extra_loads += tabs - 1;
            let closes = self.random.percent(50);
            let calls: Vec<_> = (0..tabs).map(|tab| self.visit(tab, closes)).collect();
            let reports = format!("Promise.all([{}]).then(JSON.stringify)", calls.join(", "));
            if closes {
                page.evaluate(&format!("{reports}.catch(() => {{}}), 0"))?;
                sleep(Duration::from_millis(self.random.within(0..600)));
                totals.closed += tabs;
                lost += tabs * LOST_BYTES;
            } else {
                let reports = page.evaluate(&reports)?;
                let reports: Vec<Report> = serde_json::from_str(reports.as_str().context("the page reports nothing")?)?;
                for report in reports {
                    totals.add(&report);
                    self.check(&report, None)?;
                }
            }
            received += page.evaluate("tabs.reduce((sum, tab) => sum + tab.received(), 0)")?.as_u64().unwrap_or(0);
            set_quota(&mut page, self.pages, None)?;
        }
        if self.is_low_memory {
            return Ok(()); // a load that runs out of memory starts over, possibly several times
        }
        received += self.end(browser, totals)?;
        self.count(quota.is_some(), received, lost, extra_loads, totals)
    }

    /// Stops the faults of the server. Now every tensor must load, with the bytes of the current version.
    fn end(&self, browser: &mut Chromium, totals: &mut Totals) -> Result<u64> {
        self.server.stop_faults();
        let mut page = self.page(browser)?;
        page.evaluate(SCRIPT)?;
        let url = json!(self.server.url());
        let report = page.evaluate(&format!("visit({url}, {{}}, [{{}}]).then(JSON.stringify)"))?;
        let report: Report = serde_json::from_str(report.as_str().context("the page reports nothing")?)?;
        ensure!(report.errors.is_empty(), "errors without any fault: {:?}", report.errors);
        self.check(&report, Some(self.server.version()))?;
        let count = self.model.versions.iter().map(|version| version.tensors.len()).max().unwrap_or(0);
        ensure!(report.tensors.len() == count, "{} of {count} tensors arrived", report.tensors.len());
        totals.add(&report);
        totals.visits += 1;
        let received = page.evaluate("received()")?.as_u64().unwrap_or(0);
        let left = page.evaluate("clearCache().then(cachedBytes)")?;
        ensure!(left == 0, "{left} bytes are left after clearCache()");
        Ok(received)
    }

    fn page<'b>(&self, browser: &'b mut Chromium) -> Result<Page<'b>> {
        let mut page = browser.new_page()?;
        page.open(&self.pages.url())?;
        Ok(page)
    }

    /// The JavaScript expression that makes the calls of one tab.
    fn visit(&mut self, tab: u64, closes: bool) -> String {
        let calls = Calls::new(&self.model, &mut self.random);
        let (options, some) = calls.for_a_page();
        let all = json!([{}]);
        // A page that will be closed loads everything, so that it is not done before.
        let some = if self.is_strict || closes { all } else { some };
        format!("tabs[{tab}].visit({}, {options}, {some})", json!(self.server.url()))
    }

    /// Checks that every tensor has the bytes of one version, the same for all tensors of a file.
    fn check(&self, report: &Report, version: Option<usize>) -> Result<()> {
        let mut check = Check::new(&self.model, self.server.habits().reveals_versions());
        check.version = version.filter(|_| self.server.habits().reveals_versions());
        for LoadedTensor { name, rows, shard, sha256 } in &report.tensors {
            check.tensor(name, *shard, *rows, |bytes| hex_sha256(bytes) == *sha256)?;
        }
        for OpenedFile { name, reads } in &report.files {
            let mut check = FileCheck::new(&self.model, name);
            for Read { start, end, length, sha256 } in reads {
                check.read(&(*start..*end), *length, |bytes| hex_sha256(bytes) == *sha256)?;
            }
        }
        let sent = self.server.sent();
        let is_memory_low = |code: &str| self.is_low_memory && code == "LIMIT";
        let wrong = report.errors.iter().find(|(code, _)| !sent.explains(code) && !is_memory_low(code));
        ensure!(wrong.is_none(), "not caused by the faults {:?} of {:?}: {wrong:?}", sent.faults, self.server.habits());
        Ok(())
    }

    /// Compares the bytes received with those needed: where everything can be cached, each byte of each version once.
    fn count(&self, is_full: bool, received: u64, lost: u64, extra_loads: u64, totals: &mut Totals) -> Result<()> {
        let sent = self.server.sent();
        let count = |faults: &[Fault]| faults.iter().filter_map(|fault| sent.faults.get(fault)).sum::<u64>();
        // These faults invalidate what was cached.
        let restarts = count(&[Fault::OtherTag, Fault::Page, Fault::PageAsFile, Fault::PageAsRange, Fault::Changed]);
        let files =
            self.model.versions.iter().map(|version| version.files.values().map(|file| file.len()).sum::<usize>());
        let payload = files.max().unwrap_or(0) as u64;
        let allowed = payload * (1 + restarts + extra_loads) * (100 + MAX_EXCESS_PERCENT) / 100
            + MIN_EXCESS_BYTES
            + lost
            + sent.bytes_of_ignored_ranges
            + sent.overlap_bytes;
        if self.is_strict && !is_full && self.server.habits().can_be_cached() {
            ensure!(
                received <= allowed,
                "{received} bytes were received where {allowed} are allowed: {:?}",
                sent.faults
            );
            totals.payload += payload * (1 + restarts);
            totals.received += received;
            totals.sent += sent.bytes;
        }
        totals.full += u64::from(is_full);
        for (fault, count) in sent.faults {
            *totals.faults.entry(fault).or_default() += count;
        }
        Ok(())
    }
}

impl Totals {
    fn add(&mut self, report: &Report) {
        self.tensors += report.tensors.len() as u64;
        self.aborted += report.aborted;
        self.from_cache += report.bytes_from_cache;
        for (code, _) in &report.errors {
            *self.errors.entry(code.clone()).or_default() += 1;
        }
    }

    fn print(&self) {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "{} models, {} loads, {} of them interrupted by closing the page, {} models with a small quota, \
             {} with little memory",
            self.scenarios, self.visits, self.closed, self.full, self.low_memory
        );
        println!(
            "{} tensors bit-exact, 0 wrong bytes, {:.1} MB from the cache",
            self.tensors,
            megabytes(self.from_cache)
        );
        println!("{} calls were aborted; errors: {:?}", self.aborted, self.errors);
        println!("{} faults: {:?}", self.faults.values().sum::<u64>(), self.faults);
        println!(
            "models that every visit loads whole: {:.1} MB of payload, {:.1} MB sent, {:.1} MB received",
            megabytes(self.payload),
            megabytes(self.sent),
            megabytes(self.received)
        );
    }
}

fn hex_sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn set_quota(page: &mut Page, pages: &Pages, bytes: Option<u64>) -> Result<()> {
    let params = match bytes {
        Some(bytes) => json!({ "origin": pages.origin(), "quotaSize": bytes }),
        None => json!({ "origin": pages.origin() }),
    };
    page.call("Storage.overrideQuotaForOrigin", params).map(drop)
}
