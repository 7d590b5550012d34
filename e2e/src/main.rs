//! Runs one end-to-end test, chaos, a comparison with other tools, or takes a screenshot. `cargo xtask` calls it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use e2e::{
    cache_test, chaos, crash_test, examples_test, formats, headless, interop, nginx_test, package_test, page,
    page_test, parity, screenshot, trap_test, worker_test,
};
use xtask::environment;
use xtask::project::Project;

/// The end-to-end tests of weightstream.
#[derive(Parser)]
#[command(name = "e2e")]
enum Task {
    /// What was loaded once is kept, and harms nothing.
    Cache,
    /// Load random models from a server that cuts, stalls, lies and changes files; every tensor is bit-exact or an
    /// error. Half of the time natively, and half in headless Chromium, whose tabs close and whose quota ends.
    Chaos {
        #[arg(long, default_value_t = 1.0)]
        minutes: f64,
        /// What the models, the calls and the faults are made from.
        #[arg(long, default_value_t = chaos::SEED)]
        seed: u64,
        /// Spend all of the time natively, or in Chromium.
        #[arg(long, value_enum)]
        only: Option<chaos::Place>,
    },
    /// A panic is reported, and the next open works.
    Crash,
    /// The examples load a model.
    Examples,
    /// The demo works from every format that is written.
    Formats,
    /// The demo page loads the whole model, and every tensor is compared.
    Headless,
    /// Compare with the formats' own tools, in both directions.
    Interop {
        /// What the random tensors are made from.
        #[arg(long, default_value_t = interop::SEED)]
        seed: u64,
    },
    /// Another server, however it is set up, is read the same.
    Nginx,
    /// The npm package is whole, typed and small.
    Package,
    /// The demo page does what it promises.
    Page,
    /// Every fixture is the same through three browsers and mmap.
    Parity,
    /// Write a picture of the demo page with the loaded model.
    Screenshot {
        #[arg(long)]
        dark: bool,
        /// In a window of 390 x 844 instead of 1280 x 900.
        #[arg(long)]
        phone: bool,
        /// The page to its end, not only what the window shows.
        #[arg(long)]
        whole: bool,
        /// The PNG file.
        out: PathBuf,
    },
    /// No trap of networks catches the package in a browser.
    Traps,
    /// Workers give what the page would, or are done without.
    Workers,
}

fn main() -> ExitCode {
    environment::run(|root| run(Task::parse(), &Project::at(root)?))
}

fn run(task: Task, project: &Project) -> Result<()> {
    match task {
        Task::Cache => cache_test::run(project),
        Task::Chaos { minutes, seed, only } => {
            let time = Duration::try_from_secs_f64(minutes * 60.0)?;
            match only {
                Some(chaos::Place::Native) => chaos::run(seed, time),
                Some(chaos::Place::Chromium) => chaos::browser::run(project, seed, time),
                None => chaos::run(seed, time / 2).and_then(|()| chaos::browser::run(project, seed, time / 2)),
            }
        }
        Task::Crash => crash_test::run(project),
        Task::Examples => examples_test::run(project),
        Task::Formats => formats::run(project),
        Task::Headless => headless::run(project),
        Task::Interop { seed } => interop::run(project, seed),
        Task::Nginx => nginx_test::run(project),
        Task::Package => package_test::run(project),
        Task::Page => page_test::run(project),
        Task::Parity => parity::run(project),
        Task::Screenshot { dark, phone, whole, out } => {
            let window = if phone { page::PHONE } else { page::DESKTOP };
            screenshot::take(project, window, dark, whole, &out)
        }
        Task::Traps => trap_test::run(project),
        Task::Workers => worker_test::run(project),
    }
}
