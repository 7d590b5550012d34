//! Caches that the caller gives.

use anyhow::{Result, ensure};
use serde_json::json;

use super::contents::{large, write_safetensors};
use super::promises::PROBE_BYTES;
use super::{Models, Promise, Report, Site, report};
use crate::chromium::Chromium;
use crate::page::Page;
use xtask::expected;

pub(super) const PROMISES: [(&str, Promise); 3] = [
    ("a Map is a cache", a_map),
    ("a cache that throws fails no load", throwing),
    ("nor does one that gives other bytes than it was given", lying),
];

fn a_map(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate("window.kept = new Map([['of the caller', 'something else']]), 0")?;
    for is_warm in [false, true] {
        let report = report(&mut page, &format!("load({}, {{ cache: kept }})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
        let (requests, sent) = models.sent();
        ensure!(!is_warm || (sent <= PROBE_BYTES && requests <= 1), "{sent} bytes were sent in {requests} requests");
    }
    let left = page.evaluate("listCached().then((files) => [files.length, kept.get('of the caller')])")?;
    ensure!(left == json!([0, "something else"]), "it is kept where the caller did not say, or the caller's is gone");
    Ok(())
}

fn throwing(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = small(site)?;
    let mut page = site.page(browser)?;
    for method in ["get", "set", "delete", "keys"] {
        for throws in ["throw Error('no such luck')", "return Promise.reject('no such luck')", "return 42"] {
            let cache = format!("Object.assign(new Map(), {{ {method}() {{ {throws}; }} }})");
            let report = load_small(site, &models, &mut page, &cache)?;
            let why = report.stats.cache_error.unwrap_or_default();
            let must_tell = throws != "return 42" && method != "delete"; // nothing was to be deleted
            ensure!(!must_tell || why.contains("no such luck"), "of a {method}() that will {throws} is said: {why:?}");
        }
    }
    Ok(())
}

fn lying(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = small(site)?;
    let mut page = site.page(browser)?;
    let lies = [
        "bytes.slice(1)",
        "bytes.slice(0, -1)",
        "bytes.map((byte) => byte ^ 1)",
        "new Uint8Array(bytes.length)",
        "new Uint8Array(100 << 20)",
        "'text'",
        "undefined",
        "key.endsWith('.head') ? bytes : bytes.fill(7)",
    ];
    for lie in lies {
        let get = format!("get(key) {{ const bytes = Map.prototype.get.call(this, key); return bytes && ({lie}); }}");
        page.evaluate(&format!("window.kept = Object.assign(new Map(), {{ {get} }}), 0"))?;
        for _ in 0..2 {
            let report = load_small(site, &models, &mut page, "kept")?;
            ensure!(report.stats.bytes_from_cache == 0, "bytes were taken from a cache whose get() gives {lie}");
        }
    }
    Ok(())
}

/// A model of some pieces.
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
