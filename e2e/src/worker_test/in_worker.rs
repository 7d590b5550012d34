//! Loaders that live in a worker tell what those on the page tell.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Check, MODEL, Page, TENSOR_BYTES, TENSORS};
use crate::parity;

pub(super) const PROMISES: [(&str, Check); 10] = [
    ("a loader in a worker answers as one on the page does", same_answers),
    ("it refuses the same, and tells the same progress", same_openings),
    ("it reads what the page has", local_sources),
    ("it waits where the page is slow to take tensors", waits),
    ("what it keeps is kept, also where it is closed at once", keeps),
    ("one that crashes is told, and takes none other with it", crashes),
    ("a page that forbids workers has its loaders on the page", |page| {
        without(page, "forbidden.html", "/pkg/weightstream.js")
    }),
    ("so has one that cannot find the worker's file", |page| without(page, "index.html", "/bare/weightstream.js")),
    ("a worker that a bundler made a classic script of works, with workers and a cache of its own", |page| {
        let told = classic(page, "/pkg/worker.classic.js")?;
        ensure!(told.get("workersError") == Some(&json!("none")), "{told}");
        Ok(())
    }),
    ("where such a script does not run, the loader is on the page and says why", |page| {
        let told = classic(page, "/pkg/broken.classic.js")?;
        super::says_why(told.get("workersError"), "weightstream.worker.js")
    }),
];

/// So far a worker goes ahead of the page, and one tensor further.
const AHEAD_BYTES: u64 = 8 << 20;

fn same_answers(page: &Page) -> Result<()> {
    let told = page.fresh("index.html", &format!("differences({}, {TENSOR_BYTES})", json!(MODEL)))?;
    ensure!(told.get("different") == Some(&json!({})), "{told}");
    ensure!(told.get("asked").and_then(Value::as_u64) > Some(15), "{told}");
    Ok(())
}

fn same_openings(page: &Page) -> Result<()> {
    let told = page.fresh("index.html", &format!("openings({})", json!(MODEL)))?;
    ensure!(told.get("same") == Some(&json!(true)), "{told}");
    let code = "INVALID_ARGUMENT";
    ensure!(told.get("cannotGo") == Some(&json!({ "fetch": code, "cache": code, "bytes": code })), "{told}");
    Ok(())
}

fn local_sources(page: &Page) -> Result<()> {
    let told = page.fresh("index.html", &format!("localSources({})", json!(MODEL)))?;
    ensure!(told == json!({ "count": 8, "same": true }), "{told}");
    Ok(())
}

fn waits(page: &Page) -> Result<()> {
    let told = page.fresh("index.html", "waits('/made/long.apr')")?;
    let decoded = told.get("decoded").and_then(Value::as_u64).unwrap_or_default();
    // The first was taken; a loader on the page would go on only when it is asked for the next.
    let most = AHEAD_BYTES + 2 * TENSOR_BYTES as u64;
    ensure!((AHEAD_BYTES..=most).contains(&decoded), "{told}");
    ensure!(told.get("rest").and_then(Value::as_u64) == Some(4 * TENSORS as u64 - 1), "{told}");
    Ok(())
}

fn keeps(page: &Page) -> Result<()> {
    let told = page.fresh("index.html", &format!("keeps({})", json!(MODEL)))?;
    ensure!(told.get("same") == Some(&json!(true)) && told.get("isWhole") == Some(&json!(true)), "{told}");
    ensure!(told.pointer("/fromCache/0") == Some(&json!(0)), "{told}");
    ensure!(told.get("byteLength").is_some() && told.pointer("/fromCache/1") == told.get("byteLength"), "{told}");
    Ok(())
}

fn crashes(page: &Page) -> Result<()> {
    let told = page.fresh("index.html", &format!("crashes({})", json!(MODEL)))?;
    for when in ["during", "after"] {
        let message = told.pointer(&format!("/{when}/message")).and_then(Value::as_str).unwrap_or_default();
        ensure!(message.contains("this is a test"), "{told}");
        ensure!(told.pointer(&format!("/{when}/code")) == Some(&json!("INTERNAL")), "{told}");
    }
    ensure!(told.get("others") == Some(&json!(TENSORS)), "{told}");
    Ok(())
}

fn without(page: &Page, document: &str, package: &str) -> Result<()> {
    let told = page.fresh(document, &format!("without({}, {})", json!(MODEL), json!(package)))?;
    ensure!(told.get("same") == Some(&json!(true)), "{told}");
    ensure!(told.pointer("/errors/0") == Some(&json!("none")), "{told}"); // it was not asked for
    super::says_why(told.pointer("/errors/1"), "worker")
}

fn classic(page: &Page, script: &str) -> Result<Value> {
    let told = page.fresh("index.html", &format!("classic({}, {})", json!(MODEL), json!(script)))?;
    let is = |name: &str| told.get(name) == Some(&json!(true));
    ensure!(is("same") && is("again"), "{told}");
    Ok(told)
}

/// Every fixture by loaders in workers and through mmap; how many there are.
pub(super) fn every_fixture(page: &Page, fixtures: &Path) -> Result<usize> {
    page.fresh("index.html", "true")?;
    // One names a host that does not exist, which the other tests put right by a `fetch` of their own.
    let models = parity::models(fixtures)?;
    let models: Vec<_> = models.into_iter().filter(|(path, _)| !path.ends_with("model.v02.aeroset.json")).collect();
    for (path, natively) in &models {
        let url = json!(format!("/{path}"));
        let options = "{ inWorker: true, workers: 0, fetch: undefined, cache: 'none' }";
        let in_browser = page.browser.evaluate(&format!("({})({url}, {options})", parity::IN_THE_PAGE))?;
        parity::compare(&in_browser, natively).with_context(|| path.clone())?;
    }
    Ok(models.len())
}
