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

pub const CASES: [(&str, TestCase); 5] = [
    ("races without a cut unless one is chosen", races_without_a_cut),
    ("finishes the race although the connection is cut", finishes_the_race),
    ("races without a limit", races_without_a_limit),
    ("stops the race", stops_the_race),
    ("shows an error message if the race cannot start", explains_a_missing_file),
];

/// The speed limit of each side.
const BYTES_PER_SECOND: f64 = 20e6;

/// The share of the file after which the connection is cut.
const CUT_AFTER: f64 = 0.6;

/// The option of the page that cuts it.
const CUT: &str = "0.6";

pub const STATUS: &str = "document.querySelector('#race-status').textContent";

fn races_without_a_cut(page: &mut Page, demo: &Demo) -> Result<()> {
    let size = fs::metadata(&demo.model.original)?.len() as f64;
    let stored = demo.model.stored_bytes()? as f64;
    run(page)?;
    let [own, other] = row(page, "received")?.map(|text| number(&text) * 1e6);
    ensure!((stored * 0.99..stored * 1.05).contains(&own), "weightstream received {own} bytes of {stored}");
    ensure!((other / size - 1.0).abs() < 0.01, "fetch() received {other} bytes of {size}");
    let status = page.evaluate(STATUS)?;
    let status = status.as_str().unwrap_or_default();
    ensure!(status.starts_with("weightstream received ") && !status.contains("cut"), "the page concludes {status}");
    let whole = row(page, "whole")?.map(|text| number(&text));
    let compares = if whole[0] * 1.1 < whole[1] { "fetch() took " } else { " took " };
    ensure!(status.contains(compares), "the page concludes {status} from {whole:?}");
    ensure!(page.evaluate("document.querySelector('#race-again').hidden")? == true, "nothing is received again");
    ensure!(page.evaluate("!document.querySelector('#race-chart :is(.lost, .break)')")? == true, "the chart has a cut");
    let memory = page.evaluate("/memory/i.test(document.querySelector('.results').textContent)")?;
    ensure!(memory == false, "the race shows memory, of which no browser reports the peak");
    Ok(())
}

fn finishes_the_race(page: &mut Page, demo: &Demo) -> Result<()> {
    choose(page, "#race-cut", CUT)?;
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
    ensure!(whole.iter().all(|text| text.ends_with("\u{a0}s")), "the race took {whole:?}");
    let fastest = stored / BYTES_PER_SECOND * 0.98;
    ensure!(number(&whole[0]) >= fastest, "weightstream took {whole:?}, faster than the limit");
    let first = row(page, "first")?;
    ensure!(first[0] != whole[0] && first[1] == whole[1], "the first tensors came after {first:?}");
    let lost = "document.querySelector('#race-chart .lost')?.getAttribute('d')";
    ensure!(page.evaluate(lost)?.as_str().is_some_and(|d| d.starts_with('M')), "the chart does not show the cut");
    let status = page.evaluate(STATUS)?;
    let status = status.as_str().unwrap_or_default();
    ensure!(status.starts_with("fetch() started over after the cut"), "the page concludes {status}");
    Ok(())
}

fn races_without_a_limit(page: &mut Page, _: &Demo) -> Result<()> {
    choose(page, "#race-rate", "Infinity")?;
    run(page)?;
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
    choose(page, "#race-rate", "Infinity")?;
    run(page)
}

/// Runs the race in other browsers.
pub fn run_in_other_browsers(project: &Project, demo: &Demo) -> Result<()> {
    let race = |engine| {
        let browser = Browser::launch(project, engine)?;
        failures::keep(races_with_a_cut(&browser, demo), &browser, engine, "races")
    };
    thread::scope(|scope| {
        let threads = [Engine::Firefox, Engine::WebKit].map(|engine| scope.spawn(move || race(engine)));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("the test panicked")))
    })
}

fn races_with_a_cut(browser: &Browser, demo: &Demo) -> Result<()> {
    browser.open(&demo.page(""))?;
    browser.evaluate(&chosen("#race-cut", CUT))?;
    browser.evaluate("document.querySelector('#race-start').click()")?;
    let text = format!("{STATUS} + document.querySelector('#error').textContent");
    let end = Instant::now() + LOAD_LIMIT;
    while browser.evaluate(&text)? == "" {
        ensure!(Instant::now() < end, "the race did not end within {} s", LOAD_LIMIT.as_secs());
        sleep(Duration::from_millis(100));
    }
    let outcome = browser.evaluate(&text)?;
    let has_ended = outcome.as_str().is_some_and(|text| text.starts_with("fetch() started over"));
    ensure!(has_ended, "the race ended with {outcome}");
    Ok(())
}

/// Chooses that the connection of each side is cut.
pub fn choose_the_cut(page: &mut Page) -> Result<()> {
    choose(page, "#race-cut", CUT)
}

/// Chooses an option of a `<select>`.
pub fn choose(page: &mut Page, selector: &str, value: &str) -> Result<()> {
    page.evaluate(&chosen(selector, value)).map(drop)
}

fn chosen(selector: &str, value: &str) -> String {
    format!("({})({selector:?}, {value:?})", include_str!("choose.js"))
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
    text.split_whitespace().next().and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN)
}
