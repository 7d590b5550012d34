//! Runs one end-to-end test, or takes a screenshot. `cargo xtask` starts this program.

#![warn(clippy::too_many_lines)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use e2e::devtools::Area;
use e2e::{
    bridge_test, cache_test, cases, chaos, crash_test, docs_test, examples_test, failures, file_test, formats,
    headless, hub_test, interop, nginx_test, package_test, page, page_test, parity, persona_test, publish_check_test,
    runtime_test, rust_app_test, screenshot, signature_test, site_test, store_test, trap_test, worker_test,
};
use xtask::environment;
use xtask::project::Project;

/// The end-to-end tests of weightstream.
#[derive(Parser)]
#[command(name = "e2e")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
    /// Run only the cases whose name contains this text.
    #[arg(long, global = true, value_name = "TEXT")]
    case: Option<String>,
}

#[derive(Subcommand)]
enum Task {
    /// Run the examples of candle and burn in headless Chromium.
    Bridges,
    /// Test the persistent cache.
    Cache,
    /// Load random models from a faulty server. Every tensor must be bit-exact or an error. Half of the time is spent
    /// natively, half in headless Chromium with closing tabs and exceeded quotas.
    Chaos {
        #[arg(long, default_value_t = 1.0)]
        minutes: f64,
        /// The seed of the models, the calls and the faults.
        #[arg(long, default_value_t = chaos::SEED)]
        seed: u64,
        /// The number of the first scenario, to repeat a failure. Native loads and scenarios in Chromium are counted
        /// separately.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Run only natively or only in Chromium.
        #[arg(long, value_enum)]
        only: Option<chaos::Platform>,
    },
    /// Test that a panic is reported and the next open works.
    Crash,
    /// Run the JavaScript of the documentation.
    Docs,
    /// Test that the examples load a model.
    Examples,
    /// Test files of any format in three browsers.
    Files,
    /// Test every format that has a writer.
    Formats,
    /// Load the whole model on the demo page and compare every tensor.
    Headless,
    /// Load models from a mock of the Hugging Face Hub in three browsers.
    Hub,
    /// Compare with the formats' own tools, in both directions.
    Interop {
        /// The seed of the random tensors.
        #[arg(long, default_value_t = interop::SEED)]
        seed: u64,
    },
    /// Check nginx and varnish with `publish --check`.
    PublishCheck,
    /// Load from nginx with various configurations.
    Nginx,
    /// Test the npm package: its contents, types and size, and loads with bundlers and in every environment.
    Package {
        /// Load only in these environments.
        #[arg(long, value_enum)]
        only: Option<package_test::Part>,
    },
    /// Test the demo page.
    Page,
    /// Compare every fixture in three browsers with mmap.
    Parity,
    /// Follow the documentation as new users do.
    Personas,
    /// Test runtimes with weights from the package in two browsers.
    Runtimes,
    /// Measure what clients with the previous revision download after changes of all weights.
    Revisions,
    /// Run an app in Rust with a cache and workers in three browsers.
    RustApp,
    /// Write a screenshot of the demo page after a race.
    Screenshot {
        #[arg(long)]
        dark: bool,
        /// Use a window of 390 x 844 instead of 1280 x 688.
        #[arg(long)]
        phone: bool,
        /// Capture the whole page, not only the visible part.
        #[arg(long)]
        whole: bool,
        /// The PNG file.
        out: PathBuf,
    },
    /// Sign and verify models with the reference implementation, and load them in three browsers.
    Signatures,
    /// Test the documentation site.
    Site,
    /// Publish a model in emulators of S3, Google Cloud Storage and Azure, and on a web server.
    Stores,
    /// Test network traps in three browsers.
    Traps,
    /// Test workers, and pages without workers.
    Workers,
}

fn main() -> ExitCode {
    environment::run(|root| {
        let matches = Arguments::command().get_matches();
        let Arguments { task, case } = Arguments::from_arg_matches(&matches)?;
        case.into_iter().for_each(cases::run_only);
        let project = Project::at(root)?;
        failures::begin(&project, matches.subcommand_name().unwrap_or_default())?;
        run(task, &project)?;
        cases::check_some_ran()
    })
}

fn run(task: Task, project: &Project) -> Result<()> {
    match task {
        Task::Bridges => bridge_test::run(project),
        Task::Cache => cache_test::run(project),
        Task::Chaos { minutes, seed, first, only } => {
            let time = Duration::try_from_secs_f64(minutes * 60.0)?;
            match only {
                Some(chaos::Platform::Native) => chaos::run(seed, first, time),
                Some(chaos::Platform::Chromium) => chaos::browser::run(project, seed, first, time),
                None => {
                    chaos::run(seed, first, time / 2)?;
                    chaos::browser::run(project, seed, first, time / 2)
                }
            }
        }
        Task::Crash => crash_test::run(project),
        Task::Docs => docs_test::run(project),
        Task::Examples => examples_test::run(project),
        Task::Files => file_test::run(project),
        Task::Formats => formats::run(project),
        Task::Headless => headless::run(project),
        Task::Hub => hub_test::run(project),
        Task::Interop { seed } => interop::run(project, seed),
        Task::PublishCheck => publish_check_test::run(project),
        Task::Nginx => nginx_test::run(project),
        Task::Package { only } => package_test::run(project, only),
        Task::Page => page_test::run(project),
        Task::Parity => parity::run(project),
        Task::Revisions => cache_test::revisions::run(project),
        Task::RustApp => rust_app_test::run(project),
        Task::Personas => persona_test::run(project),
        Task::Runtimes => runtime_test::run(project),
        Task::Screenshot { dark, phone, whole, out } => {
            let window = if phone { page::PHONE } else { screenshot::DESKTOP };
            let scheme = if dark { page::Scheme::Dark } else { page::Scheme::Light };
            let area = if whole { Area::WholePage } else { Area::Window };
            screenshot::take(project, window, scheme, area, &out)
        }
        Task::Signatures => signature_test::run(project),
        Task::Site => site_test::run(project),
        Task::Stores => store_test::run(project),
        Task::Traps => trap_test::run(project),
        Task::Workers => worker_test::run(project),
    }
}
