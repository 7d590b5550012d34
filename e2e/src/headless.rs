//! `cargo xtask demo --headless`: loads the whole model on the demo page in a real browser and compares every tensor,
//! then computes embeddings with it and compares them with a reference.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::chromium::Chromium;
use crate::failures;
use crate::page::{LOAD_LIMIT, Page};
use crate::{embeddings, graph};
use xtask::demo::Demo;
use xtask::expected::ExpectedTensor;
use xtask::project::Project;

/// The memory limit, independent of the size of the model. Three compressed streams of a tensor take 3 MiB if the page
/// joins them because its worker is not ready.
const MAX_WASM_MEMORY_BYTES: u64 = 11 << 20;

/// The maximum number of requests for the metadata and index of a file.
const MAX_HEADER_REQUESTS: u64 = 3;

/// The maximum number of requests for the data of a shard: the default number of connections.
const MAX_DATA_REQUESTS: u64 = 4;

/// The sentence with which the page says what it has verified.
const VERIFIED: &str = "tensors match SHA-256.";

/// The report of the page, in `window.weightstreamReport`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    ok: bool,
    error: Option<String>,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    tensors: Vec<ExpectedTensor>,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    bytes_decoded: u64,
    wasm_memory_bytes: u64,
}

pub fn run(project: &Project) -> Result<()> {
    let demo = Demo::start(project)?;
    let report = load_everything(&demo)?;
    if let Some(error) = report.error {
        bail!("the page reports: {error}");
    }
    ensure!(report.ok, "the page reports a failure without a cause");
    compare(&report.tensors, &demo.model.expected)?;

    let stats = report.stats.context("the page reports no stats")?;
    let memory = stats.wasm_memory_bytes;
    ensure!(memory <= MAX_WASM_MEMORY_BYTES, "the WebAssembly memory grew to {memory} bytes");
    let files = demo.model.paths()?.len() as u64;
    let requests = demo.traffic.requests();
    let allowed = files * MAX_HEADER_REQUESTS + (files - 1) * MAX_DATA_REQUESTS;
    ensure!(requests <= allowed, "{requests} requests for {files} files exceed the limit of {allowed}");

    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "{} tensors bit-exact, {:.1} MB sent, {:.1} MB decoded, {:.2} s, {:.0} MB/s, {requests} requests, \
         {:.1} MiB of WebAssembly memory",
        report.tensors.len(),
        megabytes(demo.traffic.bytes()),
        megabytes(stats.bytes_decoded),
        report.seconds,
        megabytes(stats.bytes_decoded) / report.seconds,
        memory as f64 / f64::from(1 << 20),
    );
    graph::check(project, &demo)?;
    embeddings::check(project, &demo)
}

/// Loads the whole model. The page must state that every file is verified.
fn load_everything(demo: &Demo) -> Result<Report> {
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    failures::keep(load_in(&mut page, demo), &mut page, "Chromium", "the whole model")
}

fn load_in(page: &mut Page, demo: &Demo) -> Result<Report> {
    page.open(&demo.page(&format!("?model={}&load=all&sha256=1", demo.manifest())))?;
    page.wait_for("the report of the load", LOAD_LIMIT, "window.weightstreamReport")?;
    let report = page.evaluate("window.weightstreamReport")?;
    let status = page.evaluate("document.querySelector('#status').textContent")?;
    let tensors = demo.model.expected.len();
    let is_verified =
        status.as_str().is_some_and(|text| text.ends_with(&format!(" {tensors} of {tensors} {VERIFIED}")));
    ensure!(is_verified, "the page does not state that {tensors} of {tensors} {VERIFIED} Its status is {status}");
    let report = serde_json::from_value(report).context("cannot parse the report of the page")?;
    let console_errors = page.take_console_errors()?;
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    Ok(report)
}

/// Compares loaded tensors with those of the original file. The error names the first that differ.
pub fn compare(arrived: &[ExpectedTensor], expected: &[ExpectedTensor]) -> Result<()> {
    let by_name: BTreeMap<_, _> = arrived.iter().map(|tensor| (&tensor.name, tensor)).collect();
    let wrong = expected.iter().filter_map(|expected| match by_name.get(&expected.name) {
        None => Some(format!("{} is missing", expected.name)),
        Some(arrived) if *arrived != expected => Some(format!("expected {expected:?}, got {arrived:?}")),
        Some(_) => None,
    });
    let wrong: Vec<_> = wrong.collect();
    let some = wrong.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n");
    ensure!(wrong.is_empty(), "{} of {} tensors are wrong:\n{some}", wrong.len(), expected.len());
    ensure!(arrived.len() == expected.len(), "{} tensors arrived, not {}", arrived.len(), expected.len());
    Ok(())
}
