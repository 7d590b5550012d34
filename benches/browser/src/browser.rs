//! Measures loading in a real browser, relative to plain `fetch()` and other baselines.

use std::{fs, thread};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use crate::cases::{self, Case};
use crate::first_use::{self, Site};
use crate::measure::Rounds;
use crate::models::{self, RAW};
use crate::nginx::Nginx;
use crate::report::{self, Report};
use crate::scaling::{self, Scaled};
use crate::throttle::{PHONE, SLOW, ThrottledProxy};
use crate::{phone, plot, profile, scaling_plot};
use e2e::chromium::Chromium;
use xtask::package;
use xtask::project::Project;

/// The number of rounds that measure the input delay of the page.
const LATENCY_ROUNDS: usize = 3;

/// Measures the named cases, or all cases if `only` is empty. The results are written to the repository only if all
/// cases ran.
pub(crate) fn run(project: &Project, rounds: usize, only: &[String], profiles: bool) -> Result<()> {
    let models = models::ready(project)?;
    let scaled = scaling::cases(&models)?;
    let package = package::build(project)?;
    let named = profiles.then(|| profile::named_package(project, &package)).transpose()?;
    let package = named.as_ref().map_or(package, |named| named.path().to_owned());
    let site = Site::start(project, &package)
        .inspect_err(|error| eprintln!("bench: no case {}: {error:#}", first_use::NAME))
        .ok();
    let server = Server::new().mount("/bench", project.root.join("benches/page")).mount("/pkg", package);
    let server = server.mount("/models", &models).isolated(true).bind("127.0.0.1:0")?.spawn();
    let line = ThrottledProxy::to(&server.url(), SLOW)?;
    let phone_line = ThrottledProxy::to(&server.url(), PHONE)?;
    let nginx = Nginx::start(&models).inspect_err(|error| eprintln!("bench: no comparison with nginx: {error:#}")).ok();

    let mut cases = cases::all(&models, &line.url)?;
    cases.extend(phone::cases(&models, &phone_line.url)?);
    let raw_bytes = fs::metadata(models.join(RAW))?.len();
    cases.extend(nginx.as_ref().map(|nginx| serve_against(nginx, raw_bytes)));
    let names = cases.iter().chain(scaled.iter().map(|scaled| &scaled.case)).map(|case| case.name.as_str());
    let names: Vec<_> = names.chain(site.as_ref().map(|_| first_use::NAME)).collect();
    for name in only {
        ensure!(names.contains(&name.as_str()), "unknown case {name}; the cases are {}", names.join(", "));
    }
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);

    let mut browser = Chromium::launch()?;
    let version = browser.version()?;
    let mut page = browser.new_page()?;
    let before = load();
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for (case, scaled) in with_scale(&cases, &scaled).filter(|(case, _)| is_wanted(&case.name)) {
        eprintln!("bench: {}", case.name);
        // Each case has its own page and module, because WebAssembly memory never shrinks.
        page.open("about:blank")?;
        page.open(&format!("{}/bench/index.html?{}", server.url(), case.name))?;
        page.call("Emulation.setCPUThrottlingRate", json!({ "rate": case.cpu_slowdown }))?;
        if profiles {
            profile::print(&mut page, case, &project.target.join(format!("{}.cpuprofile", case.name)))?;
            continue;
        }
        let mut measured = Rounds::warm_up(&mut page, case)?;
        (0..rounds.min(case.max_rounds)).try_for_each(|_| measured.add(&mut page, case))?;
        if case.goals.longest_wait_ms.is_some() {
            (0..LATENCY_ROUNDS).try_for_each(|_| measured.watch(&mut page, case))?;
        }
        let measured = measured.measured()?;
        match scaled {
            Some(scaled) => points.push(scaled.point(&measured)),
            None => rows.extend(report::rows(case, &measured)),
        }
    }
    if profiles {
        return Ok(());
    }
    page.close()?;
    if let Some(site) = site.filter(|_| is_wanted(first_use::NAME)) {
        rows.extend(site.measure(&mut browser, rounds)?);
    }
    let report = Report {
        browser: version,
        cores: thread::available_parallelism()?.get(),
        load: [before, load()],
        rounds,
        rows,
        scaling: points,
    };
    report.print();
    if only.is_empty() {
        let folder = project.root.join("benches");
        report.write(&folder.join("results.json"))?;
        fs::write(folder.join("results.svg"), plot::svg(&report))?;
        fs::write(folder.join("scaling.svg"), scaling_plot::svg(&report))?;
    }
    Ok(())
}

/// All cases; those of the scaling test with their position on the axis.
fn with_scale<'a>(cases: &'a [Case], scaled: &'a [Scaled]) -> impl Iterator<Item = (&'a Case, Option<&'a Scaled>)> {
    cases.iter().map(|case| (case, None)).chain(scaled.iter().map(|scaled| (&scaled.case, Some(scaled))))
}

/// Compares `weightstream serve` with nginx, using the same request.
fn serve_against(nginx: &Nginx, count: u64) -> Case {
    let title = "`weightstream serve` against nginx, same fetch()";
    let case = cases::tensors("serve", title, Value::Null, cases::ratio(1.05));
    Case {
        run: ("plain", json!({ "url": format!("/models/{RAW}") })),
        against: ("plain", json!({ "url": format!("{}/{RAW}", nginx.url) })),
        quantity: "time against nginx with sendfile",
        count,
        ..case
    }
}

/// The load average of the last minute, 0 if the system does not provide it.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}
