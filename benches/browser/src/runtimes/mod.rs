//! `cargo xtask bench --runtimes`: time and memory from navigation to the first output, for runtimes with their own
//! loaders and with weightstream.

mod gpu;
mod graph;
mod models;
mod report;
mod scenarios;
mod visit;

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use weightstream_cli::serve::Server;

use crate::browser::Output;
use crate::profile;
use crate::throttle::{SLOW, ThrottledProxy, UNLIMITED};
use e2e::chromium::Chromium;
use e2e::runtime_test;
use report::Report;
use scenarios::{Connection, Sample, Samples, Scenario, State, Way};
use visit::Visit;
use xtask::package;
use xtask::project::Project;

/// Weights of 16 bits change the outputs of MiniLM a little.
const MIN_SIMILARITY_F16: f64 = 0.9995;

/// The same weights in another file. The order of sums may differ.
const MIN_SIMILARITY: f64 = 0.999_999;

/// Measures the named scenarios, or all if `only` is empty. The results are written to the repository only if all ran.
pub(crate) fn run(project: &Project, rounds: usize, only: &[String], output: Output) -> Result<()> {
    let scenarios = scenarios::all();
    let names = || scenarios.iter().map(Scenario::name).chain([gpu::NAME.to_owned()]);
    for name in only {
        let known = || names().collect::<Vec<_>>().join(", ");
        ensure!(names().any(|other| other == *name), "unknown case {name}; the cases are {}", known());
    }
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|other| other == name);
    let before = crate::browser::load();
    let site = Site::new(project, output)?;
    let mut rows = Vec::new();
    for scenario in scenarios.iter().filter(|scenario| is_wanted(&scenario.name())) {
        let rounds = if output == Output::Profiles { 1 } else { rounds.min(scenario.max_rounds()) };
        rows.extend(report::rows(scenario, &measure(project, &site, scenario, rounds)?));
    }
    if output == Output::Profiles {
        return Ok(());
    }
    if is_wanted(gpu::NAME) {
        rows.extend(gpu::rows(project, rounds)?);
    }
    let report = Report {
        browser: Chromium::launch()?.version()?,
        cores: thread::available_parallelism()?.get(),
        load: [before, crate::browser::load()],
        rounds,
        rows,
    };
    report.print();
    if only.is_empty() { report.write(&project.root.join("benches/runtimes.json")) } else { Ok(()) }
}

/// What all scenarios have in common.
struct Site {
    package: PathBuf,
    node_modules: PathBuf,
    /// The package whose functions have names. Only cold visits are profiled.
    named: Option<TempDir>,
}

impl Site {
    fn new(project: &Project, output: Output) -> Result<Site> {
        let (package, node_modules) = (package::build(project)?, runtime_test::node_modules(project)?);
        let named = (output == Output::Profiles).then(|| profile::named_package(project, &package)).transpose()?;
        Ok(Site { package, node_modules, named })
    }

    fn package(&self) -> &Path {
        self.named.as_ref().map_or(&self.package, TempDir::path)
    }
}

fn measure(project: &Project, site: &Site, scenario: &Scenario, rounds: usize) -> Result<Samples> {
    let models = models::ready(project, scenario.model)?;
    let server = Server::new().mount("/bench", project.root.join("benches/page")).mount("/pkg", site.package());
    let server = server.mount("/npm", &site.node_modules).mount("/models", &models).isolated(true);
    let server = server.bind("127.0.0.1:0")?.spawn();
    let line = if scenario.connection == Connection::Slow { SLOW } else { UNLIMITED };
    let proxy = ThrottledProxy::to(&server.url(), line)?;

    let mut samples = Samples::default();
    let mut expected = None;
    for round in 0..rounds {
        let mut ways = scenario.ways();
        let count = ways.len();
        ways.rotate_left(round % count);
        for way in ways {
            eprintln!("bench: {}, round {}, {}", scenario.name(), round + 1, way.folder());
            let app = format!("{}_{}", scenario.runtime.module(), way.loader());
            let model = format!("{}/{}", scenario.model.name(), way.folder());
            let profile_name = || format!("{}-{}.cpuprofile", scenario.name(), way.folder());
            let profile_to = site.named.is_some().then(|| project.target.join(profile_name()));
            let mut visit = |browser: &mut Chromium, cut_after| -> Result<Sample> {
                proxy.count_from_zero(cut_after);
                let visit = Visit::run(browser, &proxy.url, &app, &model, profile_to.as_deref())?;
                let sample = Sample {
                    ms: visit.ms,
                    peak_bytes: visit.peak_bytes,
                    errors: visit.errors.len(),
                    model_bytes: proxy.model_bytes()?,
                };
                eprintln!("       {sample} {}", visit.errors.join("; "));
                if scenario.has_output(way) {
                    compare(way, &visit, &mut expected).with_context(|| format!("{app} with {model}"))?;
                }
                Ok(sample)
            };
            // Each load has a new profile, in which nothing is cached.
            let mut browser = Chromium::launch()?;
            samples.add(way, State::Cold, visit(&mut browser, None)?);
            if profile_to.is_some() {
                continue;
            }
            if scenario.has_warm() {
                samples.add(way, State::Warm, visit(&mut browser, None)?);
            }
            drop(browser);
            if way.is_cut(scenario) {
                let middle = models::weights_bytes(&models, scenario.model, way.folder())? / 2;
                samples.add(way, State::Cut, visit(&mut Chromium::launch()?, Some(middle))?);
            }
        }
    }
    ensure!(samples.of(Way::Own, State::Cold).next().is_some(), "nothing was measured");
    Ok(samples)
}

/// Compares the outputs of a visit with those of the first one.
fn compare(way: Way, visit: &Visit, expected: &mut Option<Visit>) -> Result<()> {
    ensure!(!visit.values.is_empty(), "there is no output");
    let similarity = expected.get_or_insert_with(|| visit.clone()).similarity(visit)?;
    let least = if way.is_exact() { MIN_SIMILARITY } else { MIN_SIMILARITY_F16 };
    ensure!(similarity >= least, "the cosine of the outputs is {similarity}");
    Ok(())
}
