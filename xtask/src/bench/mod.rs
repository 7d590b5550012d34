//! `cargo xtask bench`: how long a web app waits, against what it would otherwise write, in a real browser.

mod cases;
pub(crate) mod kernels;
mod made_up;
mod measure;
mod models;
mod nginx;
mod plot;
mod profile;
mod renderer;
mod report;

use std::{fs, thread};

use anyhow::{Result, ensure};
use serde_json::json;
use weightstream::serve::Server;

use crate::chromium::Chromium;
use crate::package;
use crate::project::Project;
use cases::{Case, Goals};
use measure::Rounds;
use nginx::Nginx;
use report::Report;

/// What is run and thrown away, so that no round pays for what happens once.
const WARM_UP_ROUNDS: usize = 1;

/// Measures the cases of these names, all where none is named; only then is the result kept in the repository.
pub(crate) fn run(project: &Project, rounds: usize, only: &[String], profiles: bool) -> Result<()> {
    let models = models::ready(project)?;
    let mut cases = cases::all(&models)?;
    let nginx = Nginx::start(&models).inspect_err(|error| eprintln!("bench: not compared with nginx: {error:#}")).ok();
    let raw_bytes = fs::metadata(models.join("raw.safetensors"))?.len();
    cases.extend(nginx.as_ref().map(|nginx| serve_against(nginx, raw_bytes)));
    let names: Vec<_> = cases.iter().map(|case| case.name).collect();
    for name in only {
        ensure!(names.contains(&name.as_str()), "there is no case {name}, only {}", names.join(", "));
    }
    cases.retain(|case| only.is_empty() || only.iter().any(|name| name == case.name));

    let package = package::build(project)?;
    let named = profiles.then(|| profile::named_package(project, &package)).transpose()?;
    let package = named.as_ref().map_or(package, |named| named.path().to_owned());
    let server = Server::new().mount("/bench", project.root.join("benches/page")).mount("/pkg", package);
    let server = server.mount("/models", &models).isolated(true).bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    let version = browser.version()?;
    let mut page = browser.new_page()?;

    let before = load();
    let mut rows = Vec::new();
    for case in &cases {
        eprintln!("bench: {}", case.name);
        // Each has a module of its own: WebAssembly memory never shrinks.
        page.open(&format!("{}/bench/index.html?{}", server.url(), case.name))?;
        if profiles {
            profile::print(&mut page, case, &project.target.join(format!("{}.cpuprofile", case.name)))?;
            continue;
        }
        (0..WARM_UP_ROUNDS).try_for_each(|_| Rounds::default().add(&mut page, case))?;
        let mut measured = Rounds::default();
        (0..rounds).try_for_each(|_| measured.add(&mut page, case))?;
        rows.extend(report::rows(case, &measured.measured()?));
    }
    if profiles {
        return Ok(());
    }
    let report = Report {
        browser: version,
        cores: thread::available_parallelism()?.get(),
        load: [before, load()],
        rounds,
        rows,
    };
    report.print();
    if only.is_empty() {
        let folder = project.root.join("benches");
        report.write(&folder.join("results.json"))?;
        fs::write(folder.join("results.svg"), plot::svg(&report))?;
    }
    Ok(())
}

/// Our own server against nginx: the same request of both.
fn serve_against(nginx: &Nginx, count: u64) -> Case {
    Case {
        name: "serve",
        title: "`weightstream serve` against nginx, same fetch()",
        run: ("plain", json!({ "url": "/models/raw.safetensors" })),
        against: json!({ "url": format!("{}/raw.safetensors", nginx.url) }),
        count,
        goals: Goals { ratio: Some(1.05), ..Goals::default() },
    }
}

/// How many processes wanted a core in the last minute; 0 where the system does not tell.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}
