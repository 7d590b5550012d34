//! The core of the promises in every engine, with every storage that it has.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::pages::Storage;
use super::promises::PROBE_BYTES;
use super::{Report, SCRIPT, Site};
use crate::engine::Engine;
use crate::webdriver::Browser;
use xtask::project::Project;

/// `weights` go where engines keep files if they can, the `small` ones elsewhere.
pub(super) fn run(project: &Project, package: &Path, weights: &Path, small: &Path) -> Result<()> {
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        for storage in [Storage::Files, Storage::Database, Storage::Nothing] {
            if engine == Engine::Chromium && storage != Storage::Nothing {
                continue; // where every promise is tried
            }
            let site = Site::new(package, if storage == Storage::Files { weights } else { small }, storage)?;
            let kept = twice(&browser, &site, storage).with_context(|| format!("{engine}, kept in {storage}"))?;
            println!("  ok  {engine}, kept in {storage}: {kept:.1} MB of the second load");
        }
    }
    Ok(())
}

/// Loads everything twice, and gives how many megabytes came from the cache.
fn twice(browser: &Browser, site: &Site, storage: Storage) -> Result<f64> {
    let models = site.models()?;
    let mut from_cache = 0;
    for is_warm in [false, true] {
        browser.open(&site.pages.url())?;
        browser.evaluate(SCRIPT)?;
        let told = browser.evaluate(&format!("load({})", json!(models.url())))?;
        let report: Report = serde_json::from_str(told.as_str().context("the page reports nothing")?)?;
        site.compare(&report.tensors, &site.expected)?;
        let (requests, sent) = models.sent();
        from_cache = report.stats.bytes_from_cache;
        if storage == Storage::Nothing {
            ensure!(sent >= site.byte_length, "{sent} bytes were sent, and the rest came from nowhere");
            let why = report.stats.cache_error.unwrap_or_default();
            ensure!(
                why.contains("nothing can be cached"),
                "of a browser with nothing to keep files in is said: {why:?}"
            );
        } else {
            ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
            ensure!(!is_warm || (sent <= PROBE_BYTES && requests <= 1), "{sent} bytes in {requests} requests");
        }
    }
    let left = browser.evaluate("clearCache().then(cachedBytes)")?;
    ensure!(left == 0, "{left} bytes are left after clearCache()");
    Ok(from_cache as f64 / 1e6)
}
