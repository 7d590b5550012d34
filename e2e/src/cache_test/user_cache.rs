//! Caches that the caller provides.

use anyhow::{Result, ensure};
use serde_json::json;

use super::cases::PROBE_BYTES;
use super::contents::{large, write_safetensors};
use super::{Models, Report, Site, TestCase, report};
use crate::chromium::Chromium;
use crate::page::Page;
use xtask::expected;

pub(super) const CASES: [(&str, TestCase); 3] = [
    ("a Map can be the cache", a_map),
    ("a cache that throws does not fail a load", throwing),
    ("a cache that returns wrong bytes does not fail a load", corrupting),
];

fn a_map(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate("window.kept = new Map([['other key', 'something else']]), 0")?;
    for is_warm in [false, true] {
        let report = report(&mut page, &format!("load({}, {{ cache: kept }})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
        let (requests, sent) = models.sent();
        ensure!(!is_warm || (sent <= PROBE_BYTES && requests <= 1), "{sent} bytes were sent in {requests} requests");
    }
    let left = page.evaluate("listCached().then((files) => [files.length, kept.get('other key')])")?;
    ensure!(left == json!([0, "something else"]), "the built-in cache was used, or another entry was removed");
    Ok(())
}

fn throwing(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = small(site)?;
    let mut page = site.page(browser)?;
    for method in ["get", "set", "delete", "keys"] {
        for throws in ["throw Error('test failure')", "return Promise.reject('test failure')", "return 42"] {
            let cache = format!("Object.assign(new Map(), {{ {method}() {{ {throws}; }} }})");
            let report = load_small(site, &models, &mut page, &cache)?;
            let why = report.stats.cache_error.unwrap_or_default();
            let must_report = throws != "return 42" && method != "delete"; // the load deletes nothing
            ensure!(!must_report || why.contains("test failure"), "{method}() {{ {throws} }}: cacheError is {why:?}");
        }
    }
    Ok(())
}

fn corrupting(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = small(site)?;
    let mut page = site.page(browser)?;
    let corruptions = [
        "bytes.slice(1)",
        "bytes.slice(0, -1)",
        "bytes.map((byte) => byte ^ 1)",
        "new Uint8Array(bytes.length)",
        "new Uint8Array(100 << 20)",
        "'text'",
        "new Blob([bytes])",
        "undefined",
        "key.endsWith('.head') ? bytes : bytes.fill(7)",
    ];
    for corruption in corruptions {
        let get =
            format!("get(key) {{ const bytes = Map.prototype.get.call(this, key); return bytes && ({corruption}); }}");
        page.evaluate(&format!("window.kept = Object.assign(new Map(), {{ {get} }}), 0"))?;
        for is_warm in [false, true] {
            let report = load_small(site, &models, &mut page, "kept")?;
            ensure!(report.stats.bytes_from_cache == 0, "wrong bytes were accepted: get() returns {corruption}");
            let must_report = is_warm && corruption != "undefined"; // a value may get lost
            ensure!(!must_report || report.stats.cache_error.is_some(), "no cacheError: get() returns {corruption}");
        }
    }
    Ok(())
}

/// A model that is cached in several chunks.
fn small(site: &Site) -> Result<Models> {
    let models = site.models()?;
    let [a, b] = large(site)?;
    write_safetensors(&models.file(), &[("a", &a), ("b", &b)])?;
    Ok(models)
}

fn load_small(site: &Site, models: &Models, page: &mut Page, cache: &str) -> Result<Report> {
    let report = report(page, &format!("load({}, {{ cache: {cache} }})", json!(models.url())))?;
    site.compare(&report.tensors, &expected::tensors(&models.file())?)?;
    Ok(report)
}
