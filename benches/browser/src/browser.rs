//! Measures loading in a real browser, relative to plain `fetch()` and other baselines.

use std::path::{Path, PathBuf};
use std::{fs, thread};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::{Running, Server};

use crate::cases::{self, Case};
use crate::first_use::{self, Site};
use crate::measure::{Measured, Rounds};
use crate::models::{self, RAW};
use crate::nginx::Nginx;
use crate::report::{self, Report};
use crate::scaling::{self, Scaled};
use crate::streams;
use crate::throttle::{MOBILE, PHONE, SLOW, ThrottledProxy};
use crate::{phone, plot, profile, scaling_plot};
use e2e::chromium::Chromium;
use e2e::page::Page;
use xtask::package;
use xtask::project::Project;

/// What a benchmark prints.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Output {
    Times,
    /// The functions that take the most time, of one round. Profiles are written to the target folder.
    Profiles,
}

/// The number of rounds that measure the input delay of the page.
const LATENCY_ROUNDS: usize = 3;

/// Measures the named cases, or all cases if `only` is empty. The results are written to the repository only if all
/// cases ran.
pub(crate) fn run(project: &Project, rounds: usize, only: &[String], output: Output) -> Result<()> {
    let models = models::ready(project)?;
    let scaled = scaling::cases(&models)?;
    let package = package::build(project)?;
    let named = (output == Output::Profiles).then(|| profile::named_package(project, &package)).transpose()?;
    let package = named.as_ref().map_or(package, |named| named.path().to_owned());
    let site = Site::start(project, &package)
        .inspect_err(|error| eprintln!("bench: no case {}: {error:#}", first_use::NAME))
        .ok();
    let servers = Servers::start(project, &models, package)?;
    let cases = servers.cases(&models)?;
    let names = cases.iter().chain(scaled.iter().map(|scaled| &scaled.case)).map(|case| case.name.as_str());
    let names: Vec<_> = names.chain(site.as_ref().map(|_| first_use::NAME)).collect();
    check_names(only, &names)?;
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);

    let mut browser = Chromium::launch()?;
    let version = browser.version()?;
    let mut page = browser.new_page()?;
    let before = load();
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    for (case, scaled) in with_scale(&cases, &scaled).filter(|(case, _)| is_wanted(&case.name)) {
        eprintln!("bench: {}", case.name);
        open(&mut page, &servers, case)?;
        if output == Output::Profiles {
            profile::print(&mut page, case, &project.target.join(format!("{}.cpuprofile", case.name)))?;
            continue;
        }
        let measured = measure(&mut page, case, rounds)?;
        match scaled {
            Some(scaled) => points.push(scaled.point(&measured)),
            None => rows.extend(report::rows(case, &measured)),
        }
    }
    if output == Output::Profiles {
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
    if only.is_empty() { write(project, &report) } else { Ok(()) }
}

fn check_names(only: &[String], names: &[&str]) -> Result<()> {
    for name in only {
        ensure!(names.contains(&name.as_str()), "unknown case {name}; the cases are {}", names.join(", "));
    }
    Ok(())
}

/// Opens the page of a case. Each has its own page and module, because WebAssembly memory never shrinks.
fn open(page: &mut Page, servers: &Servers, case: &Case) -> Result<()> {
    page.open("about:blank")?;
    page.open(&format!("{}/bench/index.html?{}", servers.server.url(), case.name))?;
    page.call("Emulation.setCPUThrottlingRate", json!({ "rate": case.cpu_slowdown }))?;
    Ok(())
}

/// The servers of the page and the models.
struct Servers {
    server: Running,
    line: ThrottledProxy,
    phone_line: ThrottledProxy,
    mobile_line: ThrottledProxy,
    nginx: Option<Nginx>,
}

impl Servers {
    fn start(project: &Project, models: &Path, package: PathBuf) -> Result<Self> {
        let server = Server::new().mount("/bench", project.root.join("benches/page")).mount("/pkg", package);
        let server = server.mount("/models", models).isolated(true).bind("127.0.0.1:0")?.spawn();
        let line = ThrottledProxy::to(&server.url(), SLOW)?;
        let phone_line = ThrottledProxy::to(&server.url(), PHONE)?;
        let mobile_line = ThrottledProxy::to(&server.url(), MOBILE)?;
        let nginx = Nginx::start(models);
        let nginx = nginx.inspect_err(|error| eprintln!("bench: no comparison with nginx: {error:#}")).ok();
        Ok(Servers { server, line, phone_line, mobile_line, nginx })
    }

    fn cases(&self, models: &Path) -> Result<Vec<Case>> {
        let mut cases = cases::all(models, &self.line.url)?;
        cases.extend(phone::cases(models, &self.phone_line.url)?);
        cases.extend(streams::cases(&self.line.url, &self.mobile_line.url));
        let raw_bytes = fs::metadata(models.join(RAW))?.len();
        cases.extend(self.nginx.as_ref().map(|nginx| serve_against(nginx, raw_bytes)));
        Ok(cases)
    }
}

/// Measures a case in the page.
fn measure(page: &mut Page, case: &Case, rounds: usize) -> Result<Measured> {
    let mut measured = Rounds::warm_up(page, case)?;
    (0..rounds.min(case.max_rounds)).try_for_each(|_| measured.add(page, case))?;
    if case.goals.longest_wait_ms.is_some() {
        (0..LATENCY_ROUNDS).try_for_each(|_| measured.watch(page, case))?;
    }
    measured.measured()
}

/// Writes the results to the repository.
fn write(project: &Project, report: &Report) -> Result<()> {
    let folder = project.root.join("benches");
    report.write(&folder.join("results.json"))?;
    fs::write(folder.join("results.svg"), plot::svg(report))?;
    Ok(fs::write(folder.join("scaling.svg"), scaling_plot::svg(report))?)
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
