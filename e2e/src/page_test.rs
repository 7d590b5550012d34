//! Tests the demo page with simulated user input in a real browser. Each case starts with a new page.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use weightstream_cli::serve::Running;

use crate::cases;
use crate::chromium::Chromium;
use crate::failures;
use crate::page::{DESKTOP, LOAD_LIMIT, PHONE, Page, SOON, Scheme};
use crate::{accessibility_test, demo_folder_test, layout_test, race_test, similarity_test, visitor_test};
use xtask::demo::Demo;
use xtask::project::Project;

type Case<'a> = dyn Fn(&mut Page, &Demo) -> Result<()> + 'a;
pub type TestCase = fn(&mut Page, &Demo) -> Result<()>;

const CASES: [(&str, TestCase); 11] = [
    ("opens the demo model on a click", opens_the_demo_model),
    ("finds tensors by words", finds_tensors),
    ("draws a selected tensor", draws_one_tensor),
    ("shows the progress of a load", shows_progress),
    ("stops a load when it is cancelled", stops_when_cancelled),
    ("shows an error message for a missing file", explains_a_missing_model),
    ("shows an error message for a file that is not a model", explains_a_file_that_is_no_model),
    ("opens files that are chosen", opens_chosen_files),
    ("opens files that are dropped", opens_dropped_files),
    ("fits a phone", fits_a_phone),
    ("follows dark mode", follows_dark_mode),
];

/// What the browser logs for requests that fail, and ONNX Runtime for weights that it does not get. Some cases request
/// missing files, break connections or stop a load.
const EXPECTED_LOGS: [&str; 4] =
    ["status of 404", "net::ERR_BLOCKED_BY_CLIENT", "net::ERR_CONTENT_LENGTH_MISMATCH", "Failed to load external data"];

/// A weight matrix, whose drawing is more interesting than that of a bias.
pub const TENSOR: &str = "encoder.layer.0.attention.self.query.weight";

/// Throttled bandwidth. A load of the demo model takes about ten seconds, enough time to check and cancel it.
const SLOW_BYTES_PER_SECOND: u32 = 10_000_000;

pub fn run(project: &Project) -> Result<()> {
    let demo = Demo::start(project)?;
    let mut browser = Chromium::launch()?;
    let axe = accessibility_test::axe(project)?;
    let has_no_violations = |page: &mut Page, demo: &Demo| accessibility_test::has_no_violations(page, demo, &axe);
    let mut failed = 0;
    let computing = if demo.model.tokenizer.is_some() { &similarity_test::CASES[..] } else { &[] };
    if computing.is_empty() {
        println!("the computation is not tested, because the weights are synthetic");
    }
    let layout = &layout_test::CASES;
    let groups = [&CASES[..], computing, &race_test::CASES, &visitor_test::CASES, &accessibility_test::CASES, layout];
    let mut cases: Vec<(&str, &Case)> = groups.into_iter().flatten().map(|(name, case)| (*name, case as _)).collect();
    cases.push(("has no violations of accessibility rules", &has_no_violations));
    let races_in_other_browsers = |_: &mut Page, demo: &Demo| race_test::run_in_other_browsers(project, demo);
    cases.push(("races in Firefox and WebKit", &races_in_other_browsers));
    let opens_from_a_folder = |page: &mut Page, _: &Demo| demo_folder_test::run(project, page);
    cases.push(("opens from a folder on any web server", &opens_from_a_folder));
    cases.retain(|(name, _)| cases::is_wanted(name));
    for (name, case) in &cases {
        let start = Instant::now();
        let mut page = browser.new_page()?;
        let outcome = failures::keep(run_case(&mut page, &demo, case), &mut page, "Chromium", name);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("  ok      {seconds:>5.1} s  {name}"),
            Err(error) => {
                failed += 1;
                println!("  FAILED  {seconds:>5.1} s  {error:#}");
            }
        }
    }
    ensure!(failed == 0, "{failed} of {} test cases of the page failed", cases.len());
    Ok(())
}

fn run_case(page: &mut Page, demo: &Demo, case: impl Fn(&mut Page, &Demo) -> Result<()>) -> Result<()> {
    page.set_window(DESKTOP)?;
    // The cache is cleared because cases count the bytes that are fetched.
    let everything = json!({ "origin": demo.server.url(), "storageTypes": "all" });
    page.call("Storage.clearDataForOrigin", everything)?;
    page.open(&demo.page(""))?;
    case(page, demo)?;
    let mut console_errors = page.take_console_errors()?;
    console_errors.retain(|text| !EXPECTED_LOGS.iter().any(|expected| text.contains(expected)));
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    Ok(())
}

fn opens_the_demo_model(page: &mut Page, demo: &Demo) -> Result<()> {
    open_model(page)?;
    let rows = page.evaluate("document.querySelectorAll('tr[data-tensor]').length")?;
    ensure!(rows == demo.model.expected.len(), "the table has {rows} rows for {} tensors", demo.model.expected.len());
    Ok(())
}

fn finds_tensors(page: &mut Page, _: &Demo) -> Result<()> {
    open_model(page)?;
    page.type_into("#search", "layer.3 query")?;
    let found = "[...document.querySelectorAll('tr[data-tensor]')].map((row) => row.dataset.tensor).sort().join()";
    let wanted = "encoder.layer.3.attention.self.query.bias,encoder.layer.3.attention.self.query.weight";
    page.wait_for("two tensors to be found", SOON, &format!("{found} === {wanted:?}"))
}

fn draws_one_tensor(page: &mut Page, demo: &Demo) -> Result<()> {
    open_model(page)?;
    let before = demo.traffic.bytes();
    page.click(&format!("tr[data-tensor='{TENSOR}']"))?;
    wait_for_the_drawing(page)?;
    let expected = demo.model.expected.iter().find(|tensor| tensor.name == TENSOR);
    let expected = expected.context("the model lacks the tensor")?;
    let fetched = demo.traffic.bytes() - before;
    // The streams of a tensor have padding between them.
    let allowed = expected.byte_length;
    ensure!(fetched <= allowed, "{fetched} bytes were fetched for a tensor of {}", expected.byte_length);
    Ok(())
}

fn shows_progress(page: &mut Page, _: &Demo) -> Result<()> {
    open_model(page)?;
    slow_down(page)?;
    page.click("#load-all")?;
    let progress = "document.querySelector('#progress')";
    page.wait_for("the bar to move", SOON, &format!("{progress}.value > 0 && {progress}.value < {progress}.max"))?;
    page.wait_for("a rate", SOON, "/\\d.*\\/s/.test(document.querySelector('#rate').textContent)")?;
    page.wait_for("the time left", SOON, "/\\d/.test(document.querySelector('#time-left').textContent)")?;
    full_speed(page)?;
    page.wait_for("the load to end", LOAD_LIMIT, "document.querySelector('#progress').dataset.end === 'done'")?;
    page.wait_for("every tensor to be marked", SOON, "!document.querySelector('tr[data-tensor] .not-yet')")
}

fn stops_when_cancelled(page: &mut Page, demo: &Demo) -> Result<()> {
    open_model(page)?;
    slow_down(page)?;
    let before = demo.server.bytes_sent();
    page.click("#load-all")?;
    page.wait_for("the bar to move", SOON, "document.querySelector('#progress').value > 0")?;
    page.click("#cancel")?;
    page.wait_for("the load to stop", SOON, "document.querySelector('#progress').dataset.end === 'stopped'")?;
    // Still throttled: at full speed, bytes in flight arrive before the abort.
    let sent = wait_until_idle(&demo.server)? - before;
    full_speed(page)?;
    let whole: u64 = demo.model.expected.iter().map(|tensor| tensor.byte_length).sum();
    ensure!(sent < whole / 2, "{sent} of {whole} bytes were sent although the load was cancelled");
    // A cancelled load can be started again.
    page.click("#load-all")?;
    page.wait_for("the second load to end", LOAD_LIMIT, "document.querySelector('#progress').dataset.end === 'done'")
}

fn explains_a_missing_model(page: &mut Page, demo: &Demo) -> Result<()> {
    page.type_into("#url", &demo.page("models/missing.apr"))?;
    page.press("Enter")?;
    wait_for_error_message(page, "404")
}

fn explains_a_file_that_is_no_model(page: &mut Page, demo: &Demo) -> Result<()> {
    page.choose_files("#file-input", &[demo.model.folder.join("expected.json")])?;
    wait_for_error_message(page, "expected.json")
}

fn opens_chosen_files(page: &mut Page, demo: &Demo) -> Result<()> {
    page.choose_files("#file-input", &demo.model.paths()?)?;
    loads_local_files(page, demo)
}

fn opens_dropped_files(page: &mut Page, demo: &Demo) -> Result<()> {
    page.drop_files(&demo.model.paths()?)?;
    loads_local_files(page, demo)
}

fn loads_local_files(page: &mut Page, demo: &Demo) -> Result<()> {
    let before = demo.traffic.requests();
    wait_for_the_model(page)?;
    page.click(&format!("tr[data-tensor='{TENSOR}']"))?;
    wait_for_the_drawing(page)?;
    ensure!(demo.traffic.requests() == before, "local files were requested from the server");
    Ok(())
}

fn fits_a_phone(page: &mut Page, demo: &Demo) -> Result<()> {
    page.set_window(PHONE)?;
    page.open(&demo.page(""))?;
    fits(page, "empty")?;
    open_model(page)?;
    fits(page, "with a model")?;
    page.click("#details > summary")?;
    fits(page, "with details")?;
    page.click(&format!("tr[data-tensor='{TENSOR}']"))?;
    wait_for_the_drawing(page)?;
    fits(page, "with a tensor")
}

pub fn fits(page: &mut Page, when: &str) -> Result<()> {
    // A vertical scroll bar of a desktop takes some of the window.
    let overflow = page.evaluate("Math.max(0, document.documentElement.scrollWidth - innerWidth)")?;
    ensure!(overflow == 0, "{when}, the page is {overflow} pixels wider than the window");
    Ok(())
}

fn follows_dark_mode(page: &mut Page, _: &Demo) -> Result<()> {
    page.set_scheme(Scheme::Light)?;
    let light = luminances(page)?;
    page.set_scheme(Scheme::Dark)?;
    let dark = luminances(page)?;
    let reads = |[background, text]: [f64; 2]| (background - text).abs() > 100.0;
    ensure!(light[0] > light[1] && reads(light), "in light mode, the luminances of background and text are {light:?}");
    ensure!(dark[0] < dark[1] && reads(dark), "in dark mode, the luminances of background and text are {dark:?}");
    Ok(())
}

/// The luminances of background and text, 0 to 255, as the browser paints them.
fn luminances(page: &mut Page) -> Result<[f64; 2]> {
    let value = page.evaluate(include_str!("luminances.js"))?;
    Ok(serde_json::from_value(value)?)
}

pub fn open_model(page: &mut Page) -> Result<()> {
    page.click("#choose-demo")?;
    wait_for_the_model(page)
}

pub fn wait_for_the_model(page: &mut Page) -> Result<()> {
    page.wait_for("the model to open", SOON, "document.documentElement.dataset.state === 'open'")
}

/// Waits for an error on the page. It must contain `named` and be a sentence, not a stringified object.
pub fn wait_for_error_message(page: &mut Page, named: &str) -> Result<()> {
    page.wait_for("an error on the page", SOON, "document.querySelector('#error p')?.textContent")?;
    let error = page.evaluate("document.querySelector('#error p').textContent")?;
    let error = error.as_str().unwrap_or_default();
    let is_sentence = error.contains(' ') && !error.contains("Error:") && !error.contains("[object");
    ensure!(is_sentence && error.contains(named), "the error message does not explain {named}: {error}");
    Ok(())
}

/// Waits until the chosen tensor's histogram has bars and its heat map is painted.
pub fn wait_for_the_drawing(page: &mut Page) -> Result<()> {
    page.wait_for(
        "the histogram",
        SOON,
        "[...document.querySelectorAll('#histogram rect')].filter((bar) => bar.height.baseVal.value > 0).length > 9",
    )?;
    page.wait_for("the heat map", SOON, include_str!("is_heatmap_painted.js"))
}

fn slow_down(page: &mut Page) -> Result<()> {
    let network =
        json!({ "offline": false, "latency": 0, "downloadThroughput": SLOW_BYTES_PER_SECOND, "uploadThroughput": -1 });
    page.call("Network.enable", json!({}))?;
    page.call("Network.emulateNetworkConditions", network)?;
    Ok(())
}

fn full_speed(page: &mut Page) -> Result<()> {
    let network = json!({ "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
    page.call("Network.emulateNetworkConditions", network)?;
    Ok(())
}

/// Waits until the server stops sending and returns how many bytes it has sent. After a load is cancelled, bytes in
/// buffers may still be sent.
fn wait_until_idle(server: &Running) -> Result<u64> {
    let mut bytes = server.bytes_sent();
    for _ in 0..20 {
        sleep(Duration::from_secs(1));
        let now = server.bytes_sent();
        if now == bytes {
            return Ok(bytes);
        }
        bytes = now;
    }
    bail!("the server still sends bytes after the load was cancelled")
}
