//! The most important cache tests in every browser engine, with every kind of storage.

use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::cases::PROBE_BYTES;
use super::pages::Storage;
use super::{Report, SCRIPT, Site, folders};
use crate::engine::Engine;
use crate::failures;
use crate::webdriver::Browser;
use xtask::project::Project;

/// Uses `weights` with the origin private file system, and the `small` model with other storage.
pub(super) fn run(project: &Project, package: &Path, weights: &Path, small: &Path) -> Result<()> {
    thread::scope(|scope| {
        let run = |engine| scope.spawn(move || run_engine(project, engine, package, weights, small));
        let threads = Engine::ALL.map(run);
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("the test panicked")))
    })
}

fn run_engine(project: &Project, engine: Engine, package: &Path, weights: &Path, small: &Path) -> Result<()> {
    let browser = Browser::launch(project, engine)?;
    for storage in [Storage::Files, Storage::Database, Storage::Nothing] {
        if engine == Engine::Chromium && storage != Storage::Nothing {
            continue; // all cases run in Chromium
        }
        let site = Site::new(package, if storage == Storage::Files { weights } else { small }, storage)?;
        let cached = twice(&browser, &site, storage);
        let cached = failures::keep(cached, &browser, engine, &format!("cached in {storage}"))?;
        println!("  ok  {engine}, cached in {storage}: the second load reads {cached:.1} MB from the cache");
        if storage == Storage::Files {
            let cached = failures::keep(in_folder(&browser, &site), &browser, engine, "cached in a folder")?;
            println!("  ok  {engine}, cached in a folder: {cached}");
        }
    }
    Ok(())
}

/// Loads everything twice into a folder, if the browser can write to one. Returns what it did.
fn in_folder(browser: &Browser, site: &Site) -> Result<&'static str> {
    browser.open(&site.pages.url())?;
    if browser.evaluate("typeof FileSystemFileHandle")? == "undefined" {
        return Ok("pages have no folders");
    }
    let models = site.models()?;
    for is_warm in [false, true] {
        browser.open(&site.pages.url())?;
        browser.evaluate(SCRIPT)?;
        browser.evaluate(folders::SCRIPT)?;
        let can_write = browser.evaluate("'createWritable' in FileSystemFileHandle.prototype")? == true;
        let load = if can_write { "complete" } else { "inFolder" };
        let result = browser.evaluate(&format!("{load}({})", json!(models.url())))?;
        let report: Report = serde_json::from_str(result.as_str().context("the page reports nothing")?)?;
        site.compare(&report.tensors, &site.expected)?;
        let why = report.stats.cache_error.unwrap_or_default();
        if !can_write {
            ensure!(why.contains("This browser cannot write to folders"), "cacheError is {why:?}");
            ensure!(browser.evaluate("paths()")? == json!([]), "something is left in the folder");
            return Ok("the browser cannot write to folders, and says so");
        }
        ensure!(why.is_empty(), "{why}");
        let (requests, sent) = models.sent();
        ensure!(!is_warm || (sent <= PROBE_BYTES && requests <= 1), "{sent} bytes in {requests} requests");
    }
    let left = browser.evaluate("folder().then(clearFolder).then(paths)")?;
    ensure!(left == json!([]), "{left} is left");
    Ok("the second load reads the complete file")
}

/// Loads everything twice. Returns how many megabytes of the second load came from the cache.
fn twice(browser: &Browser, site: &Site, storage: Storage) -> Result<f64> {
    let models = site.models()?;
    let mut from_cache = 0;
    for is_warm in [false, true] {
        browser.open(&site.pages.url())?;
        browser.evaluate(SCRIPT)?;
        let result = browser.evaluate(&format!("load({})", json!(models.url())))?;
        let report: Report = serde_json::from_str(result.as_str().context("the page reports nothing")?)?;
        site.compare(&report.tensors, &site.expected)?;
        let (requests, sent) = models.sent();
        from_cache = report.stats.bytes_from_cache;
        if storage == Storage::Nothing {
            ensure!(sent >= site.byte_length, "only {sent} bytes were sent, although nothing can be cached");
            let why = report.stats.cache_error.unwrap_or_default();
            ensure!(why.contains("nothing can be cached"), "cacheError without any storage: {why:?}");
        } else {
            ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
            ensure!(!is_warm || (sent <= PROBE_BYTES && requests <= 1), "{sent} bytes in {requests} requests");
        }
    }
    let left = browser.evaluate("clearCache().then(cachedBytes)")?;
    ensure!(left == 0, "{left} bytes are left after clearCache()");
    Ok(from_cache as f64 / 1e6)
}
