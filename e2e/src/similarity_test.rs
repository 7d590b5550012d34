//! Tests the section of the demo page that computes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::page::{LOAD_LIMIT, PHONE, Page, SOON};
use crate::page_test::{TestCase, fits, open_model, wait_for_error_message, wait_for_the_model};
use crate::trap_test::exposed;
use crate::trap_test::traps::server::{Reply, Request, Server, answer};
use xtask::demo::Demo;
use xtask::model::MANIFEST;

pub const CASES: [(&str, TestCase); 9] = [
    ("compares sentences, and again when they change", compares_sentences),
    ("computes from the network, from the cache, and again from the network", computes_cold_and_warm),
    ("computes with files that are chosen", computes_with_local_files),
    ("computes without JavaScript Promise Integration", computes_without_jspi),
    ("computes although connections break", computes_over_broken_connections),
    ("stops to load for a computation", stops_when_asked),
    ("shows an error message if weights are missing", explains_missing_weights),
    ("shows an error message if the runtime is missing", explains_a_missing_runtime),
    ("shows what each layer waited for on a phone", fits_a_phone),
];

/// The similarity of the sentences on the page. The reference has the same two sentences.
const SIMILARITY: &str = "0.625";

/// More bytes than a request for the header of a file or for a small tensor gets.
const LARGE: usize = 1_000_000;

/// How many responses break off.
const CUTS: usize = 6;

const VALUE: &str = "document.querySelector('#similarity-value').textContent";
const STATUS: &str = "document.querySelector('#similarity-status').textContent";

fn compares_sentences(page: &mut Page, _: &Demo) -> Result<()> {
    open_model(page)?;
    compute(page)?;
    let list =
        "[...document.querySelectorAll('#similar .number')].map((number) => +number.textContent.replace('−', '-'))";
    let is_sorted = format!("((list) => list.length === 5 && list.every((n, at) => !(n > list[at - 1])))({list})");
    ensure!(page.evaluate(&is_sorted)? == true, "the list is {}", page.evaluate(list)?);

    let same = page.evaluate("document.querySelector('#sentence-a').value")?;
    page.type_into("#sentence-b", same.as_str().unwrap_or_default())?;
    page.wait_for("equal sentences to be found equal", SOON, &format!("{VALUE} === '1.000'"))?;
    let before = page.evaluate(list)?;
    page.type_into("#sentence-a", "The sun is shining.")?;
    page.wait_for("the list to change", SOON, &format!("String({list}) !== String({before})"))?;
    let first = page.evaluate("document.querySelector('#similar .text').textContent")?;
    ensure!(first == "The weather is lovely today.", "the most similar sentence is {first}");
    page.type_into("#sentence-b", " ")?;
    page.wait_for("no similarity with an empty sentence", SOON, &format!("{VALUE} === '–'"))
}

fn computes_cold_and_warm(page: &mut Page, demo: &Demo) -> Result<()> {
    let weights: u64 = demo.model.expected.iter().map(|tensor| tensor.byte_length).sum();
    open_model(page)?;
    let start = demo.traffic.bytes();
    compute(page)?;
    page.wait_for("a cold computation", SOON, &format!("{STATUS}.endsWith(' from the network.')"))?;
    let cold = demo.traffic.bytes();
    ensure!(cold - start > weights / 2, "{} bytes were fetched", cold - start);
    page.click("#from-cache")?;
    page.wait_for("a warm computation", LOAD_LIMIT, &format!("{STATUS}.endsWith(' from the cache.')"))?;
    let warm = demo.traffic.bytes();
    ensure!(warm - cold < LARGE as u64, "{} bytes were fetched although they are cached", warm - cold);
    page.click("#from-network")?;
    page.wait_for("a cold computation", LOAD_LIMIT, &format!("{STATUS}.endsWith(' from the network.')"))?;
    let again = demo.traffic.bytes() - warm;
    ensure!(again > weights / 2, "{again} bytes were fetched after the cache was cleared");
    let times = page.evaluate("[...document.querySelectorAll('#first-figures dd')].map((time) => time.textContent)")?;
    let are_shown = times.as_array().is_some_and(|times| times.len() == 6 && times.iter().all(|time| time != "–"));
    ensure!(are_shown, "the times are {times}");
    ensure!(page.evaluate(VALUE)? == SIMILARITY, "the similarity is {}", page.evaluate(VALUE)?);
    Ok(())
}

fn computes_with_local_files(page: &mut Page, demo: &Demo) -> Result<()> {
    page.choose_files("#file-input", &demo.model.paths()?)?;
    wait_for_the_model(page)?;
    let before = demo.traffic.requests();
    compute(page)?;
    ensure!(demo.traffic.requests() == before, "weights were requested from the server");
    Ok(())
}

fn computes_without_jspi(page: &mut Page, demo: &Demo) -> Result<()> {
    let script = json!({ "source": "delete WebAssembly.Suspending" });
    page.call("Page.addScriptToEvaluateOnNewDocument", script)?;
    page.open(&demo.page(""))?;
    open_model(page)?;
    compute(page)?;
    let names = "performance.getEntriesByType('resource').map(({ name }) => name.split('/').at(-1))";
    let loaded = page.evaluate(&format!("{names}.filter((name) => /^ort[.-].*mjs$/.test(name)).sort()"))?;
    let expected = json!(["ort-wasm-simd-threaded.mjs", "ort.wasm.min.mjs"]);
    ensure!(loaded == expected, "the page loaded {loaded}");
    Ok(())
}

fn computes_over_broken_connections(page: &mut Page, demo: &Demo) -> Result<()> {
    let cuts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cuts);
    let server = serve(demo, move |request, reply| {
        let is_large = request.range.as_ref().is_none_or(|range| range.len() > 2 * LARGE);
        if is_large && counted.fetch_add(1, Ordering::Relaxed) < CUTS { reply.cut_after(LARGE) } else { reply }
    })?;
    open_from(page, &server)?;
    compute(page)?;
    ensure!(cuts.load(Ordering::Relaxed) > CUTS, "no response broke off");
    Ok(())
}

fn stops_when_asked(page: &mut Page, demo: &Demo) -> Result<()> {
    let is_slow = Arc::new(AtomicBool::new(true));
    let slow = Arc::clone(&is_slow);
    let server = serve(demo, move |_, reply| if slow.load(Ordering::Relaxed) { reply.slowly(50) } else { reply })?;
    open_from(page, &server)?;
    page.click("#compute")?;
    page.wait_for("the weights to arrive", SOON, &format!("{STATUS}.includes('Embeddings')"))?;
    page.click("#stop-computing")?;
    page.wait_for("the computation to stop", SOON, &format!("{STATUS} === 'Stopped.'"))?;
    is_slow.store(false, Ordering::Relaxed);
    compute(page)
}

fn explains_missing_weights(page: &mut Page, demo: &Demo) -> Result<()> {
    let is_missing = Arc::new(AtomicBool::new(false));
    let missing = Arc::clone(&is_missing);
    let server = serve(demo, move |request, reply| {
        let is_gone = missing.load(Ordering::Relaxed) && request.path.ends_with(".zt");
        if is_gone { Reply::new(404, b"") } else { reply }
    })?;
    open_from(page, &server)?;
    is_missing.store(true, Ordering::Relaxed);
    page.click("#compute")?;
    wait_for_error_message(page, "404")?;
    is_missing.store(false, Ordering::Relaxed);
    compute(page)
}

fn explains_a_missing_runtime(page: &mut Page, _: &Demo) -> Result<()> {
    open_model(page)?;
    page.call("Network.enable", json!({}))?;
    page.call("Network.setBlockedURLs", json!({ "urls": ["*npm/onnxruntime-web*"] }))?;
    page.click("#compute")?;
    wait_for_error_message(page, "npm/onnxruntime-web")?;
    page.call("Network.setBlockedURLs", json!({ "urls": [] }))?;
    compute(page)
}

fn fits_a_phone(page: &mut Page, demo: &Demo) -> Result<()> {
    page.set_window(PHONE)?;
    page.open(&demo.page(""))?;
    open_model(page)?;
    page.click("#details > summary")?;
    compute(page)?;
    fits(page, "with similarities")?;
    let rows = page.evaluate("document.querySelectorAll('#steps tbody tr').length")?;
    ensure!(rows == 9, "the table has {rows} steps");
    let hidden = "[...document.querySelectorAll('#steps tbody :is(th, td):not(.weights)')].filter((cell) => {
        const { left, right, width } = cell.getBoundingClientRect();
        return width === 0 || left < 0 || right > innerWidth;
    }).length";
    let hidden = page.evaluate(hidden)?;
    ensure!(hidden == 0, "{hidden} cells of the table are not visible");
    Ok(())
}

/// Starts the computation and waits for its result.
fn compute(page: &mut Page) -> Result<()> {
    page.click("#compute")?;
    page.wait_for("the similarity", LOAD_LIMIT, &format!("{STATUS}.startsWith('The first embedding was ready')"))?;
    let similarity = page.evaluate(VALUE)?;
    ensure!(similarity == SIMILARITY, "the similarity is {similarity}, not {SIMILARITY}");
    Ok(())
}

/// Serves the demo model from another origin. `change` changes the replies.
fn serve(demo: &Demo, change: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static) -> Result<Server> {
    let mut files = Vec::new();
    for entry in fs::read_dir(&demo.model.folder)? {
        let entry = entry?;
        files.push((format!("/{}", entry.file_name().to_string_lossy()), fs::read(entry.path())?));
    }
    Ok(Server::new(move |request| {
        let found = files.iter().find(|(path, _)| *path == request.path);
        let reply = found.map_or_else(|| Reply::new(404, b""), |(_, file)| answer(file, request));
        exposed(change(request, reply))
    }))
}

fn open_from(page: &mut Page, server: &Server) -> Result<()> {
    page.type_into("#url", &server.url(&format!("/{MANIFEST}")))?;
    page.press("Enter")?;
    wait_for_the_model(page)
}
