//! Loaders that run in a worker must behave like loaders on the page.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Check, MODEL, Page, TENSOR_BYTES, TENSORS};
use crate::parity;

pub(super) const CASES: [(&str, Check); 10] = [
    ("a loader in a worker returns the same as one on the page", same_answers),
    ("a loader in a worker rejects the same and reports the same progress", same_openings),
    ("a loader in a worker reads local sources", local_sources),
    ("a loader in a worker waits for a slow consumer", waits),
    ("a loader in a worker caches files, even if it is closed immediately", keeps),
    ("a crash in a worker is reported and does not affect other loaders", crashes),
    ("a page that forbids workers runs loaders on the page", |page| {
        without(page, "forbidden.html", "/pkg/weightstream.js")
    }),
    ("a page without the worker file runs loaders on the page", |page| {
        without(page, "index.html", "/bare/weightstream.js")
    }),
    ("a worker bundled as a classic script works, with its own workers and cache", |page| {
        let result = load_with_classic_worker(page, "/pkg/worker.classic.js")?;
        ensure!(result.get("workersError") == Some(&json!("none")), "{result}");
        Ok(())
    }),
    ("if such a script fails, the loader runs on the page and reports the cause", |page| {
        let result = load_with_classic_worker(page, "/pkg/broken.classic.js")?;
        super::check_error(result.get("workersError"), "weightstream.worker.js")
    }),
];

/// How many bytes a worker reads ahead of the page. It may exceed this by one tensor.
const READ_AHEAD_BYTES: u64 = 8 << 20;

fn same_answers(page: &Page) -> Result<()> {
    let result = page.fresh("index.html", &format!("differences({}, {TENSOR_BYTES})", json!(MODEL)))?;
    ensure!(result.get("different") == Some(&json!({})), "{result}");
    ensure!(result.get("asked").and_then(Value::as_u64) > Some(15), "{result}");
    Ok(())
}

fn same_openings(page: &Page) -> Result<()> {
    let result = page.fresh("index.html", &format!("openings({})", json!(MODEL)))?;
    ensure!(result.get("same") == Some(&json!(true)), "{result}");
    let code = "INVALID_ARGUMENT";
    ensure!(result.get("cannotGo") == Some(&json!({ "fetch": code, "cache": code, "bytes": code })), "{result}");
    Ok(())
}

fn local_sources(page: &Page) -> Result<()> {
    let result = page.fresh("index.html", &format!("localSources({})", json!(MODEL)))?;
    ensure!(result == json!({ "count": 8, "same": true }), "{result}");
    Ok(())
}

fn waits(page: &Page) -> Result<()> {
    let result = page.fresh("index.html", "waits('/made/long.apr')")?;
    let decoded = result.get("decoded").and_then(Value::as_u64).unwrap_or_default();
    // The page has taken the first tensor. A loader on the page would wait until the next one is requested.
    let max = READ_AHEAD_BYTES + 2 * TENSOR_BYTES as u64;
    ensure!((READ_AHEAD_BYTES..=max).contains(&decoded), "{result}");
    ensure!(result.get("rest").and_then(Value::as_u64) == Some(4 * TENSORS as u64 - 1), "{result}");
    Ok(())
}

fn keeps(page: &Page) -> Result<()> {
    let result = page.fresh("index.html", &format!("keeps({})", json!(MODEL)))?;
    ensure!(result.get("same") == Some(&json!(true)) && result.get("isWhole") == Some(&json!(true)), "{result}");
    ensure!(result.pointer("/fromCache/0") == Some(&json!(0)), "{result}");
    let byte_length = result.get("byteLength");
    ensure!(byte_length.is_some() && result.pointer("/fromCache/1") == byte_length, "{result}");
    Ok(())
}

fn crashes(page: &Page) -> Result<()> {
    let result = page.fresh("index.html", &format!("crashes({})", json!(MODEL)))?;
    for when in ["during", "after"] {
        let message = result.pointer(&format!("/{when}/message")).and_then(Value::as_str).unwrap_or_default();
        ensure!(message.contains("this is a test"), "{result}");
        ensure!(result.pointer(&format!("/{when}/code")) == Some(&json!("INTERNAL")), "{result}");
    }
    ensure!(result.get("others") == Some(&json!(TENSORS)), "{result}");
    Ok(())
}

fn without(page: &Page, document: &str, package: &str) -> Result<()> {
    let result = page.fresh(document, &format!("without({}, {})", json!(MODEL), json!(package)))?;
    ensure!(result.get("same") == Some(&json!(true)), "{result}");
    ensure!(result.pointer("/errors/0") == Some(&json!("none")), "{result}"); // no worker was requested
    super::check_error(result.pointer("/errors/1"), "worker")
}

fn load_with_classic_worker(page: &Page, script: &str) -> Result<Value> {
    let result = page.fresh("index.html", &format!("classic({}, {})", json!(MODEL), json!(script)))?;
    let is = |name: &str| result.get(name) == Some(&json!(true));
    ensure!(is("same") && is("again"), "{result}");
    Ok(result)
}

/// Compares every fixture between loaders in workers and mmap. Returns the number of fixtures.
pub(super) fn every_fixture(page: &Page, fixtures: &Path) -> Result<usize> {
    page.fresh("index.html", "true")?;
    // One fixture references a host that does not exist. Other tests redirect it with their own `fetch`.
    let models = parity::models(fixtures)?;
    let models: Vec<_> = models.into_iter().filter(|(path, _)| !path.ends_with("model.v02.aeroset.json")).collect();
    for (path, native) in &models {
        let url = json!(format!("/{path}"));
        let options = "{ inWorker: true, workers: 0, fetch: undefined, cache: 'none' }";
        let in_browser = page.browser.evaluate(&format!("({})({url}, {options})", parity::IN_THE_PAGE))?;
        parity::compare(&in_browser, native).with_context(|| path.clone())?;
    }
    Ok(models.len())
}
