//! The same loads in Firefox, as far as they concern the speed of its reads. Its memory is not measured: it has several
//! processes for each page, and DevTools do not say which.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use crate::browser::load;
use crate::cases::{self, Case, PageFunction};
use crate::measure::median;
use crate::models;
use e2e::engine::Engine;
use e2e::webdriver::Browser;
use xtask::package;
use xtask::project::Project;

const CASES: [&str; 5] = ["byob", "raw", "crc32", "lz4-q8", "warm"];

/// Runs each case and its baseline in alternating rounds, after one to warm up, and prints the medians.
pub(crate) fn run(project: &Project, rounds: usize) -> Result<()> {
    let models = models::ready(project)?;
    let server = Server::new().mount("/bench", project.root.join("benches/page"));
    let server = server.mount("/pkg", package::build(project)?).mount("/models", &models).isolated(true);
    let server = server.bind("127.0.0.1:0")?.spawn();
    let cases = cases::all(&models, &server.url())?;
    let before = load();
    let mut table = String::from("| case | time | `fetch()` | ratio | goal |\n| --- | --- | --- | --- | --- |\n");
    let browser = Browser::launch(project, Engine::Firefox)?;
    for name in CASES {
        let case = cases.iter().find(|case| case.name == name).with_context(|| format!("no case {name}"))?;
        eprintln!("bench: {name} in Firefox");
        browser.open(&format!("{}/bench/index.html?{name}", server.url()))?;
        table.push_str(&row(&browser, case, rounds)?);
    }
    println!("Firefox, {rounds} rounds, load {before} to {}, medians\n\n{table}", load());
    Ok(())
}

fn row(browser: &Browser, case: &Case, rounds: usize) -> Result<String> {
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (first, second) = if round % 2 == 0 { (&case.run, &case.against) } else { (&case.against, &case.run) };
        let times = [run_once(browser, case, first)?, run_once(browser, case, second)?];
        let [time, baseline] = if round % 2 == 0 { times } else { [times[1], times[0]] };
        if round > 0 {
            ours.push(time);
            plain.push(baseline);
        }
    }
    let ratio = median(ours.iter().zip(&plain).map(|(ours, plain)| ours / plain).collect());
    let (ours, plain) = (median(ours), median(plain));
    let (ours, plain, ratio) = ours.zip(plain).zip(ratio).map(|((a, b), c)| (a, b, c)).context("no round")?;
    let goal = case.goals.ratio.map_or("–".to_owned(), |goal| format!("≤ {goal:.2}"));
    Ok(format!("| {} | {ours:.0} ms | {plain:.0} ms | {ratio:.2} | {goal} |\n", case.title))
}

/// Returns the time in milliseconds.
fn run_once(browser: &Browser, case: &Case, (way, parameters): &PageFunction) -> Result<f64> {
    let arguments = format!("({}, {parameters})", json!(way));
    call(browser, &format!("prepare{arguments}"))?;
    let result = call(browser, &format!("run{arguments}"))?;
    call(browser, "release()")?;
    let field = |name: &str| result.get(name).and_then(Value::as_f64).with_context(|| format!("{way} has no {name}"));
    let is_raw_file = *way == "plain"; // its count is the length of the file, with the header
    ensure!(is_raw_file || field("count")? as u64 == case.count, "{}: the result is {result}", case.name);
    field("ms")
}

/// Calls a function that `bench.js` exports.
fn call(browser: &Browser, call: &str) -> Result<Value> {
    browser.evaluate(&format!(r#"import("/bench/bench.js").then((bench) => bench.{call})"#))
}
