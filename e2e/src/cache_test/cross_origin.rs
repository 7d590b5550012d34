//! Files that two origins share through a Cross-Origin Storage, which is a mock with each of the interfaces in use.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::pages::{Pages, Storage};
use super::{Case, Models, Site};
use crate::chromium::Chromium;
use crate::page::Page;

pub(super) const CASES: [Case; 8] = [
    ("an origin reads what another one has stored in Cross-Origin Storage", shares_with_each_interface),
    ("a loader in a worker shares files across origins", shares_in_a_worker),
    ("openFile shares files across origins", shares_any_file),
    ("wrong bytes in Cross-Origin Storage are not used", refuses_wrong_bytes),
    ("without Cross-Origin Storage, a model loads as usual", loads_without_storage),
    ("a file that cannot be stored in Cross-Origin Storage loads as usual", loads_if_storing_fails),
    ("a file that was not read to its end is not stored in Cross-Origin Storage", stores_no_half_file),
    ("a cached file is stored in Cross-Origin Storage without a request", stores_from_the_cache),
];

const METHODS: [&str; 3] = ["getFileHandle", "requestFileHandle", "requestFileHandles"];

const FRAME: &str = include_str!("cross_origin_frame.js");
const MOCK: &str = include_str!("../../../tests/cross_origin/mock.js");
const PAGE: &str = include_str!("cross_origin_page.js");

/// Requests for what is no weight: the check of a cached version.
const PROBE_BYTES: u64 = 1;

/// A page with frames of two origins, each with a cache of its own.
struct Origins<'a> {
    page: Page<'a>,
    models: Models,
    sha256: String,
    _frames: [Pages; 2],
}

#[derive(Debug, Deserialize)]
struct Report {
    tensors: BTreeMap<String, String>,
    stats: Stats,
    log: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    bytes_received: u64,
    bytes_from_cache: u64,
    cross_origin_storage: Shared,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shared {
    files_found: u64,
    files_stored: u64,
    files_without_digest: u64,
    error: Option<String>,
}

impl<'a> Origins<'a> {
    fn open(browser: &'a mut Chromium, site: &Site) -> Result<Self> {
        let frames = [origin(site)?, origin(site)?];
        let urls: Vec<_> = frames.iter().map(|frame| format!("{}/frame.html", frame.origin())).collect();
        let mut page = site.page(browser)?;
        page.evaluate(&format!("({PAGE})({})", json!(urls)))?;
        let sha256 = HEXLOWER.encode(&Sha256::digest(fs::read(&site.weights)?));
        let mut origins = Origins { page, models: site.models()?, sha256, _frames: frames };
        for number in 0..2 {
            origins.evaluate(number, "install('getFileHandle')")?;
        }
        Ok(origins)
    }

    fn evaluate(&mut self, number: usize, expression: &str) -> Result<Value> {
        self.page.evaluate(&format!("run({number}, {})", json!(expression)))
    }

    /// Calls a function of the frame with the model, and with options that pin its digest.
    fn call(&mut self, number: usize, function: &str, options: &str, waits: bool) -> Result<Report> {
        let pinned = json!({ "digests": { "files": { "model.safetensors": format!("sha256:{}", self.sha256) } } });
        let url = json!(self.models.url());
        let expression = format!("{function}({url}, {{ ...{pinned}, {options} }}, {waits})");
        let report = self.evaluate(number, &expression)?;
        Ok(serde_json::from_str(report.as_str().context("the frame reports nothing")?)?)
    }

    /// Loads the model in the first origin, which stores it, and then in the other one, which requests nothing.
    fn share(&mut self, site: &Site, options: &str) -> Result<()> {
        let one = self.call(0, "load", &format!("crossOriginStorage: true, {options}"), true)?;
        site.compare(&one.tensors, &site.expected)?;
        let Shared { files_found, files_stored, ref error, .. } = one.stats.cross_origin_storage;
        ensure!((files_found, files_stored, error) == (0, 1, &None), "the first origin reports {one:?}");
        let (_, sent) = self.models.sent();
        ensure!(sent <= site.byte_length, "the first origin received {sent} bytes of {}", site.byte_length);
        let other = self.call(1, "load", &format!("crossOriginStorage: 'read', {options}"), false)?;
        site.compare(&other.tensors, &site.expected)?;
        ensure!(other.stats.cross_origin_storage.files_found == 1, "the other origin reports {other:?}");
        let from_storage = other.stats.bytes_from_cache;
        ensure!(other.stats.bytes_received == 0 && from_storage >= site.byte_length, "{from_storage} bytes were found");
        let sent = self.models.sent();
        ensure!(sent == (0, 0), "the other origin received {} bytes in {} requests", sent.1, sent.0);
        Ok(())
    }

    fn shared(&mut self) -> Result<Value> {
        self.page.evaluate("shared.size")
    }
}

/// An origin with a page that runs the script of a frame.
fn origin(site: &Site) -> Result<Pages> {
    let pages = Pages::new(site.pages.package(), Storage::Files)?;
    let page = "<!doctype html><title>frame</title><script type=module src=frame.js></script>";
    for (name, content) in [("frame.html", page), ("frame.js", FRAME), ("mock.js", MOCK)] {
        fs::write(pages.folder().join(name), content)?;
    }
    Ok(pages)
}

fn shares_with_each_interface(browser: &mut Chromium, site: &Site) -> Result<()> {
    for method in METHODS {
        let mut origins = Origins::open(browser, site)?;
        for number in 0..2 {
            origins.evaluate(number, &format!("install('{method}')"))?;
        }
        origins.share(site, "").with_context(|| method)?;
    }
    Ok(())
}

fn shares_in_a_worker(browser: &mut Chromium, site: &Site) -> Result<()> {
    Origins::open(browser, site)?.share(site, "inWorker: true")
}

fn shares_any_file(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut origins = Origins::open(browser, site)?;
    let digest = format!("digests: undefined, digest: 'sha256:{}'", origins.sha256);
    let one = origins.call(0, "read", &format!("{digest}, crossOriginStorage: true"), true)?;
    ensure!(one.stats.cross_origin_storage.files_stored == 1, "the first origin reports {one:?}");
    origins.models.sent();
    let other = origins.call(1, "read", &format!("{digest}, crossOriginStorage: true"), false)?;
    ensure!(other.tensors == one.tensors, "the file has other bytes");
    ensure!(other.stats.cross_origin_storage.files_found == 1, "the other origin reports {other:?}");
    let sent = origins.models.sent();
    ensure!(sent == (0, 0), "the other origin received {} bytes in {} requests", sent.1, sent.0);
    let unknown = origins.call(1, "read", "digests: undefined, crossOriginStorage: 'read'", false)?;
    let Shared { files_found, files_without_digest, .. } = unknown.stats.cross_origin_storage;
    ensure!((files_found, files_without_digest) == (0, 1), "without a digest, {unknown:?}");
    Ok(())
}

fn refuses_wrong_bytes(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut origins = Origins::open(browser, site)?;
    let wrong = format!("shared.set('{}', new Blob([new Uint8Array({})])).size", origins.sha256, site.byte_length);
    origins.page.evaluate(&wrong)?;
    let report = origins.call(0, "load", "crossOriginStorage: 'read'", true)?;
    site.compare(&report.tensors, &site.expected)?;
    let Shared { files_found, error, .. } = report.stats.cross_origin_storage;
    ensure!(files_found == 0 && error.is_some_and(|error| error.contains("is not used")), "the error is not reported");
    Ok(())
}

fn loads_without_storage(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut origins = Origins::open(browser, site)?;
    for (number, installed, reason) in [
        (0, "install()", "does not have it"),
        (1, "install('getFileHandle', { handle: 'NotAllowedError' })", "NotAllowedError"),
    ] {
        origins.evaluate(number, installed)?;
        let report = origins.call(number, "load", "crossOriginStorage: true", true)?;
        site.compare(&report.tensors, &site.expected)?;
        let error = report.stats.cross_origin_storage.error;
        ensure!(error.as_ref().is_some_and(|error| error.contains(reason)), "{installed} reports {error:?}");
    }
    Ok(())
}

fn loads_if_storing_fails(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut origins = Origins::open(browser, site)?;
    for (number, failing, name, end) in
        [(0, "close", "DataError", "close"), (1, "write", "QuotaExceededError", "abort")]
    {
        origins.evaluate(number, &format!("install('getFileHandle', {{ {failing}: '{name}' }})"))?;
        let report = origins.call(number, "load", "crossOriginStorage: true", true)?;
        site.compare(&report.tensors, &site.expected)?;
        let Shared { files_stored, error, .. } = report.stats.cross_origin_storage;
        let is_reported = error.as_ref().is_some_and(|error| error.contains(name));
        ensure!(files_stored == 0 && is_reported, "{failing} reports {error:?}");
        let last = origins.evaluate(number, "log.at(-1)")?;
        ensure!(last == json!(format!("{end:?}")), "after {failing}, the last call is {last}");
    }
    ensure!(origins.shared()? == 0, "a file was stored");
    let uncached = origins.call(0, "load", "crossOriginStorage: true, cache: 'none'", true)?;
    let error = uncached.stats.cross_origin_storage.error;
    ensure!(error.as_ref().is_some_and(|error| error.contains("from the cache")), "without a cache, {error:?}");
    Ok(())
}

fn stores_no_half_file(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut origins = Origins::open(browser, site)?;
    let report = origins.call(0, "leave", "crossOriginStorage: true, concurrency: 1, maxMemory: 0", false)?;
    let outcome = report.tensors.get("outcome").map(String::as_str);
    ensure!(outcome == Some("stop"), "the call was not aborted: {report:?}");
    ensure!(report.log.is_empty() && origins.shared()? == 0, "half of a file was stored: {report:?}");
    // The next load goes on after what is cached, and stores all of it.
    let next = origins.call(0, "load", "crossOriginStorage: true", true)?;
    ensure!(next.stats.cross_origin_storage.files_stored == 1 && origins.shared()? == 1, "then, {next:?}");
    Ok(())
}

/// The option was not used at the first visit.
fn stores_from_the_cache(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut origins = Origins::open(browser, site)?;
    origins.call(0, "load", "crossOriginStorage: 'read'", false)?;
    origins.models.sent();
    let report = origins.call(0, "load", "crossOriginStorage: true", true)?;
    ensure!(report.stats.cross_origin_storage.files_stored == 1, "the second load reports {report:?}");
    let (requests, sent) = origins.models.sent();
    ensure!(sent <= PROBE_BYTES, "{sent} bytes were sent in {requests} requests");
    Ok(())
}
