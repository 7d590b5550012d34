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
    page.evaluate(
        "globalThis.Worker = class extends Worker {
            messages = 0;
            postMessage(...message) {
                super.postMessage(...message);
                if (++this.messages === 7) {
                    this.terminate();
                    this.dispatchEvent(new ErrorEvent('error', { message: 'no such luck', cancelable: true }));
                }
            }
        }; 0",
    )?;
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
    let script = format!(
        "import * as ws from '/pkg/weightstream.js';
        const load = {};
        self.onconnect = ({{ ports: [port] }}) => {{ port.onmessage = ({{ data }}) => answer(data, port); }};
        self.onmessage = (event) => event.waitUntil(answer(event.data, event.source));
        async function answer(url, port) {{
            port.postMessage(await load(url).catch(String));
        }}",
        IN_A_WORKER
    );
    fs::write(site.pages.folder().join("worker.js"), script)?;
    let starts = [
        "const worker = new SharedWorker('/worker.js', { type: 'module' }).port",
        "navigator.serviceWorker.startMessages?.();
         const registration = await navigator.serviceWorker.register('/worker.js', { type: 'module' });
         const worker = registration.active ?? registration.installing;
         await navigator.serviceWorker.ready",
    ];
    for start in starts {
        let models = site.models()?;
        for is_warm in [false, true] {
            let mut page = site.page(browser)?;
            let told = page.evaluate(&format!(
                "(async () => {{
                    {start};
                    return new Promise((resolve) => {{
                        const take = ({{ data }}) => resolve(data);
                        worker.onmessage = take;
                        navigator.serviceWorker.onmessage = take;
                        worker.postMessage({});
                    }});
                }})()",
                json!(models.url())
            ))?;
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
const IN_A_WORKER: &str = r#"async (url) => {
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const loader = await ws.StreamingLoader.open(url, { retry: { attempts: 1, baseDelay: 1 } }), tensors = {};
  for await (const { name, data } of loader.tensors()) tensors[name] = hex(await crypto.subtle.digest("SHA-256", data));
  const { stats } = loader;
  loader.close();
  await ws.listCached();
  return JSON.stringify({ tensors, stats, fromCache: false });
}"#;

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
