//! The cache in pages without workers or without storage, and in other kinds of workers.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::cases::PROBE_BYTES;
use super::{Models, Report, SCRIPT, Site, TestCase, report};
use crate::chromium::Chromium;
use crate::page::Page;

pub(super) const CASES: [(&str, TestCase); 8] = [
    ("files are cached without workers", no_workers),
    ("files are cached when the worker does not start, and the cause is reported", workers_that_do_not_start),
    ("a worker that did not start is started again", starts_again),
    ("a paused load holds no lease of its file", releases_the_lease_of_a_paused_load),
    ("a worker that fails during a load does not fail the load", fails_in_the_middle),
    ("missing storage is reported", no_storage),
    ("shared and service workers have a cache", other_workers),
    ("a private window caches nothing by default, and this is reported", private_windows),
];

/// Loads the model twice with these options. The second load must come from the cache.
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
    page.close()?;
    // A page with workers finds, lists and deletes the same files.
    let mut page = site.page(browser)?;
    let urls = page.evaluate("listCached().then((files) => files.map(({ url }) => url))")?;
    ensure!(urls == json!([models.url()]), "the cache lists {urls}");
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
            "is started as a classic script, but is a module",
            "globalThis.Worker = class extends Worker { constructor() { super('data:text/javascript,export {}'); } }",
            "export",
        ),
        (
            "never replies",
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
            let cache_error = stats.cache_error.unwrap_or_default();
            ensure!(
                cache_error.contains(why) && cache_error.contains("IndexedDB"),
                "a worker that {what}: cacheError is {cache_error:?}"
            );
        }
        let only_files = report(&mut page, &format!("load({}, {{ cache: 'opfs' }})", json!(models.url())))?;
        let cache_error = only_files.stats.cache_error.unwrap_or_default();
        ensure!(
            only_files.stats.bytes_from_cache == 0 && cache_error.contains(why),
            "`cache: \"opfs\"`: cacheError is {cache_error:?}"
        );
    }
    Ok(())
}

/// The page was offline once, for example. The files that are cached already must not be downloaded again for good.
fn starts_again(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    site.load(browser, &models)?;
    let mut page = site.page(browser)?;
    page.evaluate(
        "globalThis.Started = Worker; \
         globalThis.Worker = class extends Worker { constructor() { super('/nothing.js'); } }; 0",
    )?;
    let load = format!("load({})", json!(models.url()));
    let cache_error = report(&mut page, &load)?.stats.cache_error.unwrap_or_default();
    ensure!(cache_error.contains("IndexedDB"), "without a worker: cacheError is {cache_error:?}");
    models.sent();
    page.evaluate("globalThis.Worker = Started; 0")?;
    let report = report(&mut page, &load)?;
    site.compare(&report.tensors, &site.expected)?;
    let (_, sent) = models.sent();
    ensure!(sent <= PROBE_BYTES, "{sent} bytes were sent although the file is cached");
    ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
    Ok(())
}

/// Other loads of the file, in this tab and in others, would wait for the lease.
fn releases_the_lease_of_a_paused_load(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate(include_str!("paused_load.js"))?;
    let left = page.evaluate(&format!("leasesOfPausedLoad({})", json!(models.url())))?;
    ensure!(left == 0, "{left} leases are held");
    let report = report(&mut page, &format!("load({})", json!(models.url())))?;
    site.compare(&report.tensors, &site.expected)?;
    let rest = page.evaluate("restOfPausedLoad()")?;
    ensure!(rest == json!(site.expected.len() - 1), "{rest} tensors are left");
    Ok(())
}

fn fails_in_the_middle(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate(include_str!("failing_worker.js"))?;
    for _ in 0..2 {
        let report = report(&mut page, &format!("load({}, {{ workers: 0 }})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        let cache_error = report.stats.cache_error.unwrap_or_default();
        ensure!(cache_error.contains("test failure"), "a worker that fails: cacheError is {cache_error:?}");
    }
    Ok(())
}

fn no_storage(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = site.page(browser)?;
    page.evaluate("delete globalThis.Worker; Object.defineProperty(globalThis, 'indexedDB', { value: undefined }); 0")?;
    for _ in 0..2 {
        let report = report(&mut page, &format!("load({})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        let cache_error = report.stats.cache_error.unwrap_or_default();
        ensure!(cache_error.contains("nothing can be cached"), "cacheError is {cache_error:?}");
    }
    let listed = page.evaluate("clearCache().then(listCached)")?;
    ensure!(listed == json!([]), "the cache lists {listed}");
    Ok(())
}

fn other_workers(browser: &mut Chromium, site: &Site) -> Result<()> {
    let answering = include_str!("answering_worker.js");
    let script = format!("import * as ws from '/pkg/weightstream.js';\nconst load = {LOAD_IN_WORKER};\n{answering}");
    fs::write(site.pages.folder().join("worker.js"), script)?;
    for kind in ["shared", "service"] {
        let models = site.models()?;
        for is_warm in [false, true] {
            let mut page = site.page(browser)?;
            let arguments = format!("{kind:?}, {}", json!(models.url()));
            let result = page.evaluate(&format!("({})({arguments})", include_str!("ask_worker.js")))?;
            let result = result.as_str().context("the worker sent no text")?;
            let report: Report = serde_json::from_str(result).with_context(|| result.to_owned())?;
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

/// `load` of the page for a worker, where dynamic import is not available.
const LOAD_IN_WORKER: &str = include_str!("load_in_worker.js");

fn private_windows(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let mut page = browser.new_private_page()?;
    page.open(&site.pages.url())?;
    page.evaluate(SCRIPT)?;
    for _ in 0..2 {
        let report = report(&mut page, &format!("load({})", json!(models.url())))?;
        site.compare(&report.tensors, &site.expected)?;
        let cache_error = report.stats.cache_error.unwrap_or_default();
        ensure!(
            cache_error.contains("private window") && report.stats.bytes_from_cache == 0,
            "cacheError is {cache_error:?}"
        );
    }
    models.sent();
    for report in twice(&mut page, site, &models, "{ cache: 'opfs' }")? {
        ensure!(report.stats.cache_error.is_none(), "{:?}", report.stats.cache_error);
    }
    let left = page.evaluate("clearCache().then(cachedBytes)")?;
    ensure!(left == 0, "{left} bytes are left");
    page.close()?;
    let mut page = site.page(browser)?;
    for report in twice(&mut page, site, &models, "{ cache: 'opfs' }")? {
        ensure!(report.stats.cache_error.is_none(), "in an ordinary window: {:?}", report.stats.cache_error);
    }
    Ok(())
}
