//! `cargo xtask demo --headless`: the page loads the whole model in a real browser, and every tensor is compared.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::chromium::Chromium;
use crate::page::LOAD_LIMIT;
use xtask::demo::Demo;
use xtask::expected::ExpectedTensor;
use xtask::project::Project;

/// The promise of bounded memory, whatever the size of the model.
const MAX_WASM_MEMORY_BYTES: u64 = 8 << 20;

/// The head of a file (its metadata and index) takes no more requests than this.
const MAX_REQUESTS_OF_HEAD: u64 = 3;

/// And the data of a shard come in no more pieces than there are connections by default.
const MAX_REQUESTS_OF_DATA: u64 = 4;

/// What the page tells of its load, in `window.weightstreamReport`.
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
        bail!("the page says: {error}");
    }
    ensure!(report.ok, "the page says that the load failed, and not why");
    compare(&report.tensors, &demo.model.expected)?;

    let stats = report.stats.context("the page reports no stats")?;
    let memory = stats.wasm_memory_bytes;
    ensure!(memory <= MAX_WASM_MEMORY_BYTES, "the WebAssembly memory grew to {memory} bytes");
    let files = demo.model.files()? as u64;
    let requests = demo.traffic.requests();
    let allowed = files * MAX_REQUESTS_OF_HEAD + (files - 1) * MAX_REQUESTS_OF_DATA;
    ensure!(requests <= allowed, "{requests} requests for {files} files; at most {allowed} should do");

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
    Ok(())
}

fn load_everything(demo: &Demo) -> Result<Report> {
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.open(&demo.page(&format!("?model={}&load=all&sha256=1", demo.manifest())))?;
    page.wait_for("the report of the load", LOAD_LIMIT, "window.weightstreamReport")?;
    let report = page.evaluate("window.weightstreamReport")?;
    let report = serde_json::from_value(report).context("the page's report is not as agreed")?;
    let complaints = page.take_complaints()?;
    ensure!(complaints.is_empty(), "the console says: {}", complaints.join("; "));
    Ok(report)
}

/// Names the first tensors that are not what the original file holds.
pub fn compare(arrived: &[ExpectedTensor], expected: &[ExpectedTensor]) -> Result<()> {
    let by_name: BTreeMap<_, _> = arrived.iter().map(|tensor| (&tensor.name, tensor)).collect();
    let wrong = expected.iter().filter_map(|expected| match by_name.get(&expected.name) {
        None => Some(format!("{} did not arrive", expected.name)),
        Some(arrived) if *arrived != expected => Some(format!("expected {expected:?}, got {arrived:?}")),
        Some(_) => None,
    });
    let wrong: Vec<_> = wrong.collect();
    let some = wrong.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n");
    ensure!(wrong.is_empty(), "{} of {} tensors are wrong:\n{some}", wrong.len(), expected.len());
    ensure!(arrived.len() == expected.len(), "{} tensors arrived, not {}", arrived.len(), expected.len());
    Ok(())
}
