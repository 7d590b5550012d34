//! Tests the race of the demo page against `fetch()`.

use std::fs;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::engine::Engine;
use crate::failures;
use crate::page::{LOAD_LIMIT, Page, SOON};
use crate::page_test::{TestCase, wait_for_error_message};
use crate::webdriver::Browser;
use xtask::demo::Demo;
use xtask::project::Project;

pub const CASES: [(&str, TestCase); 4] = [
    ("finishes the race although the connection is cut", finishes_the_race),
    ("races without a limit", races_without_a_limit),
    ("stops the race", stops_the_race),
    ("shows an error message if the race cannot start", explains_a_missing_file),
];

/// The speed limit of each side.
const BYTES_PER_SECOND: f64 = 20e6;

/// The share of the file after which the connection is cut.
const CUT_AFTER: f64 = 0.6;

pub const STATUS: &str = "document.querySelector('#race-status').textContent";

fn finishes_the_race(page: &mut Page, demo: &Demo) -> Result<()> {
    let size = fs::metadata(&demo.model.original)?.len() as f64;
    let stored = demo.model.stored_bytes()? as f64;
    let before = demo.traffic.bytes();
    run(page)?;
    let sent = (demo.traffic.bytes() - before) as f64;
    ensure!(
        sent >= stored + size * (1.0 + CUT_AFTER),
        "the server sent {sent} bytes for two sides of which one starts over"
    );

    let [own, other] = row(page, "received")?.map(|text| number(&text) * 1e6);
    ensure!((stored..stored * 1.1).contains(&own), "weightstream received {own} bytes of {stored}");
    let expected = size * (1.0 + CUT_AFTER);
    ensure!((other / expected - 1.0).abs() < 0.01, "fetch() received {other} bytes, not {expected}");
    let again = row(page, "again")?;
    ensure!((number(&again[1]) * 1e6 / (size * CUT_AFTER) - 1.0).abs() < 0.01, "again, fetch() received {again:?}");

    let whole = row(page, "whole")?;
    let seconds = [number(&whole[0]), number(&whole[1])];
    ensure!(whole.iter().all(|text| text.ends_with(" s")), "the race took {whole:?}");
    ensure!(seconds[0] >= stored / BYTES_PER_SECOND * 0.98, "weightstream took {whole:?}, faster than the limit");
    ensure!(seconds[0] < seconds[1], "weightstream took {whole:?}");
    let first = row(page, "first")?;
    ensure!(first[0] != whole[0] && first[1] == whole[1], "the first tensors came after {first:?}");
    let lost = "document.querySelector('#race-chart .lost')?.getAttribute('d')";
    ensure!(page.evaluate(lost)?.as_str().is_some_and(|d| d.starts_with('M')), "the chart does not show the cut");

    page.wait_for("the memory", LOAD_LIMIT, "/\\d MB$/.test(document.querySelector('#race-memory td').textContent)")?;
    let memory = row(page, "memory")?;
    let held = memory.iter().all(|text| (size..size * 1.5).contains(&(number(text) * 1e6)));
    ensure!(held, "the sides hold {memory:?} of memory for a model of {size} bytes");
    Ok(())
}

fn races_without_a_limit(page: &mut Page, _: &Demo) -> Result<()> {
    page.evaluate("document.querySelector('#race-rate').value = 'Infinity'")?;
    run(page)?;
    let status = page.evaluate(STATUS)?;
    let status = status.as_str().unwrap_or_default();
    ensure!(status.starts_with("fetch() started over"), "the page concludes {status}");
    run(page)?;
    ensure!(row(page, "whole")?.iter().all(|text| number(text) > 0.0), "the second race has no results");
    Ok(())
}

fn stops_the_race(page: &mut Page, _: &Demo) -> Result<()> {
    page.click("#race-start")?;
    let received = "document.querySelector('#race-received td').textContent";
    page.wait_for("the first bytes", SOON, &format!("/[1-9]/.test({received})"))?;
    page.click("#race-stop")?;
    page.wait_for("the race to stop", SOON, &format!("{STATUS} === 'Stopped.'"))?;
    run(page)
}

fn explains_a_missing_file(page: &mut Page, _: &Demo) -> Result<()> {
    page.call("Network.enable", json!({}))?;
    page.call("Network.setBlockedURLs", json!({ "urls": ["*.safetensors"] }))?;
    page.click("#race-start")?;
    wait_for_error_message(page, "all-MiniLM-L6-v2.safetensors")?;
    page.call("Network.setBlockedURLs", json!({ "urls": [] }))?;
    page.evaluate("document.querySelector('#race-rate').value = 'Infinity'")?;
    run(page)
}

/// Runs the race in browsers that do not report their memory.
pub fn run_in_other_browsers(project: &Project, demo: &Demo) -> Result<()> {
    let race = |engine| {
        let browser = Browser::launch(project, engine)?;
        failures::keep(races_without_memory(&browser, demo), &browser, engine, "races")
    };
    thread::scope(|scope| {
        let threads = [Engine::Firefox, Engine::WebKit].map(|engine| scope.spawn(move || race(engine)));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("the test panicked")))
    })
}

/// Runs a race whose memory is not known.
fn races_without_memory(browser: &Browser, demo: &Demo) -> Result<()> {
    browser.open(&demo.page(""))?;
    browser.evaluate("document.querySelector('#race-start').click()")?;
    let text = "document.querySelector('#race-memory').textContent + document.querySelector('#error').textContent";
    let end = Instant::now() + LOAD_LIMIT;
    while !browser.evaluate(text)?.as_str().is_some_and(|text| text.contains("browser") || text.contains('×')) {
        ensure!(Instant::now() < end, "the race did not end within {} s", LOAD_LIMIT.as_secs());
        sleep(Duration::from_millis(100));
    }
    let outcome = browser.evaluate(&format!("[{STATUS}, {text}]"))?;
    let [status, memory]: [String; 2] = serde_json::from_value(outcome)?;
    let is_unknown = memory == format!("Memory held{0}{0}", "not available in this browser");
    let has_ended = status.starts_with("fetch() started over");
    ensure!(has_ended && is_unknown, "the race ended with {status:?}, {memory:?}");
    Ok(())
}

/// Starts a race and waits until both sides have the model.
pub fn run(page: &mut Page) -> Result<()> {
    page.click("#race-start")?;
    page.wait_for("the race to run", SOON, "document.querySelector('#race-start').hidden")?;
    let has_ended = format!("!document.querySelector('#race-start').hidden && {STATUS} !== ''");
    page.wait_for("the end of the race", LOAD_LIMIT, &has_ended)
}

/// The results of weightstream and of `fetch()`.
fn row(page: &mut Page, name: &str) -> Result<[String; 2]> {
    let cells = format!("[...document.querySelectorAll('#race-{name} td')].map((cell) => cell.textContent)");
    serde_json::from_value(page.evaluate(&cells)?).with_context(|| format!("the row {name} of the results"))
}

/// The number at the beginning of a text such as `90.9 MB`; NaN if there is none.
fn number(text: &str) -> f64 {
    text.split(' ').next().and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN)
}
