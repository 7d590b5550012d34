//! Pages whose cache cannot have its worker, or the storage that it should have.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::promises::PROBE_BYTES;
use super::{Models, Promise, Report, SCRIPT, Site, report};
use crate::chromium::Chromium;
use crate::page::Page;

pub(super) const PROMISES: [(&str, Promise); 6] = [
    ("without workers files are kept all the same", no_workers),
    ("and where one does not start, which is said", workers_that_do_not_start),
    ("one that fails in the middle fails no load", fails_in_the_middle),
    ("where nothing can be cached that is said", nowhere_to_cache),
    ("shared and service workers have a cache", other_workers),
    ("a private window has none, which is said, unless it is asked for", private_windows),
];

/// Opens with what a page evaluates first, and loads twice. The second load should come from the cache.
fn twice(page: &mut Page, site: &Site, models: &Models, options: &str) -> Result<[Report; 2]> {
    let mut load = |is_warm: bool| -> Result<Report> {
        let report = report(page, &format!("load({}, {options})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        let (_, sent) = models.sent();
        ensure!((sent <= PROBE_BYTES) == is_warm, "{sent} bytes were sent; warm: {is_warm}");
        Ok(report)
    };
    Ok([load(false)?, load(true)?])
}

fn no_workers(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate("delete globalThis.Worker")?;
    for report in twice(&mut page, site, &models, "{}")? {
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
    }
    drop(page);
    // A page with workers finds, lists and deletes it, too.
    let mut page = site.page(browser)?;
    let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    ensure!(urls == json!([models.url()]), "these are listed: {urls}");
    let left = page.evaluate("clearCache().then(cachedBytes)")?;
    ensure!(left == 0, "{left} bytes are left");
    Ok(())
}

fn workers_that_do_not_start(browser: &mut Chromium, site: &Site) -> Result<()> {
    let bad = [
        (
            "throws",
            "globalThis.Worker = class { constructor() { throw TypeError('Trusted Types'); } }",
            "Trusted Types",
        ),
        (
            "is not found",
            "globalThis.Worker = class extends Worker { constructor() { super('/nothing.js'); } }",
            "worker",
        ),
        (
            "is a classic script",
            "globalThis.Worker = class extends Worker { constructor(url) { super(url); } }",
            "outside a module",
        ),
        (
            "says nothing",
            "globalThis.Worker = class extends Worker { constructor() { super('data:text/javascript,0'); } }",
            "does not answer",
        ),
    ];
    for (what, script, why) in bad {
        let models = site.models()?;
        let mut page = site.page(browser)?;
        page.evaluate(&format!("{script}; 0"))?;
        let reports = twice(&mut page, site, &models, "{}").with_context(|| format!("a worker that {what}"))?;
        for Report { stats, .. } in reports {
            let said = stats.cache_error.unwrap_or_default();
            ensure!(said.contains(why) && said.contains("IndexedDB"), "of a worker that {what} is said: {said:?}");
        }
        let only_files = report(&mut page, &format!("load({}, {{ cache: 'opfs' }})", json!(models.url())))?;
        let said = only_files.stats.cache_error.unwrap_or_default();
        ensure!(only_files.stats.bytes_from_cache == 0 && said.contains(why), "`cache: \"opfs\"` says {said:?}");
    }
    Ok(())
}

fn fails_in_the_middle(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate(include_str!("failing_worker.js"))?;
    for _ in 0..2 {
        let report = report(&mut page, &format!("load({}, {{ workers: 0 }})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        let said = report.stats.cache_error.unwrap_or_default();
        ensure!(said.contains("no such luck"), "of a worker that fails is said: {said:?}");
    }
    Ok(())
}

fn nowhere_to_cache(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate("delete globalThis.Worker; Object.defineProperty(globalThis, 'indexedDB', { value: undefined }); 0")?;
    for _ in 0..2 {
        let report = report(&mut page, &format!("load({})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        let said = report.stats.cache_error.unwrap_or_default();
        ensure!(said.contains("nothing can be cached"), "this is said: {said:?}");
    }
    let listed = page.evaluate("clearCache().then(listCached)")?;
    ensure!(listed == json!([]), "these are listed: {listed}");
    Ok(())
}

fn other_workers(browser: &mut Chromium, site: &Site) -> Result<()> {
    let answering = include_str!("answering_worker.js");
    let script = format!("import * as ws from '/pkg/weightstream.js';\nconst load = {IN_A_WORKER};\n{answering}");
    fs::write(site.pages.folder().join("worker.js"), script)?;
    for kind in ["shared", "service"] {
        let models = site.models()?;
        for is_warm in [false, true] {
            let mut page = site.page(browser)?;
            let arguments = format!("{kind:?}, {}", json!(models.url()));
            let told = page.evaluate(&format!("({})({arguments})", include_str!("ask_worker.js")))?;
            let told = told.as_str().context("nothing is told")?;
            let report: Report = serde_json::from_str(told).with_context(|| told.to_owned())?;
            site.compare(&report.tensors, &site.expected)?;
            ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
            let (_, sent) = models.sent();
            ensure!(!is_warm || sent <= PROBE_BYTES, "{sent} bytes were sent");
        }
    }
    let gone =
        "navigator.serviceWorker.getRegistrations().then((all) => Promise.all(all.map((one) => one.unregister())))";
    site.page(browser)?.evaluate(gone)?;
    Ok(())
}

/// `load` of the page, for a worker that may not import later.
const IN_A_WORKER: &str = include_str!("load_in_worker.js");

fn private_windows(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = browser.new_private_page()?;
    page.open(&site.pages.url())?;
    page.evaluate(SCRIPT)?;
    for _ in 0..2 {
        let report = report(&mut page, &format!("load({})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        let said = report.stats.cache_error.unwrap_or_default();
        ensure!(said.contains("private window") && report.stats.bytes_from_cache == 0, "this is said: {said:?}");
    }
    models.sent();
    for report in twice(&mut page, site, &models, "{ cache: 'opfs' }")? {
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
    }
    let left = page.evaluate("clearCache().then(cachedBytes)")?;
    ensure!(left == 0, "{left} bytes are left");
    drop(page);
    let mut page = site.page(browser)?;
    for report in twice(&mut page, site, &models, "{ cache: 'opfs' }")? {
        ensure!(report.stats.cache_error.is_none(), "in an ordinary window: {:?}", report.stats.cache_error);
    }
    Ok(())
}
