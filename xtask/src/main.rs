//! The project's chores: `cargo xtask <chore>`. They find or install whatever they need by themselves.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use crate::project::Project;

mod api;
mod apt;
mod bench;
mod browser;
mod browser_traps;
mod cache_test;
mod call_graph;
mod cargo_tools;
mod chaos;
mod chromium;
mod command;
mod crash_test;
mod demo;
mod devtools;
mod engine;
mod environment;
mod examples_test;
mod expected;
mod formats;
mod fuzz;
mod headless;
mod interop;
mod lanes;
#[cfg(test)]
mod line_length;
mod links;
mod listing;
mod long_heads;
mod miri;
mod model;
mod msrv;
mod nginx;
mod nginx_test;
mod npm;
mod package;
mod package_contents;
mod package_test;
mod page;
mod page_test;
mod parity;
mod peers;
mod project;
mod python;
#[cfg(test)]
mod readme_figures;
mod release;
mod screenshot;
mod setup;
mod sizes;
#[cfg(test)]
mod sources;
mod suite;
mod synthetic;
mod targets;
mod trap_test;
mod types;
mod wasm_sysroot;
mod wasm_target;
mod webdriver;
mod worker_test;
mod ztensor;

/// The chores of the weightstream project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Chore {
    /// Find or install every tool: wasm32 target, wasm-bindgen, wasm-pack, npm tools, Chromium.
    Setup,
    /// Build the npm package into pkg/, and tell what each format costs in its module.
    Build,
    /// Fetch the demo model's weights and convert them.
    Model,
    /// Build and serve the demo page; its address goes to standard output.
    Demo {
        /// Load the whole model in a headless browser instead, compare every tensor and end.
        #[arg(long, conflicts_with = "port")]
        headless: bool,
        /// Serve on this port only.
        #[arg(long)]
        port: Option<u16>,
    },
    /// Compare with the formats' own tools, in both directions: what they write we read, what we write they read.
    Interop {
        /// What the random tensors are made from.
        #[arg(long, default_value_t = interop::SEED)]
        seed: u64,
    },
    /// Measure loading in a headless browser against plain `fetch()`, and what was promised of it.
    Bench {
        /// How often each case is run, in turn with what it is compared with.
        #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
        rounds: u16,
        /// Only this case, and leave the results in `benches/` as they are. Can be given more than once.
        #[arg(long)]
        only: Vec<String>,
        /// Measure decoders, digests and parsers by themselves instead.
        #[arg(long, conflicts_with = "only")]
        kernels: bool,
        /// Measure other libraries that load weights beside ours instead.
        #[arg(long, conflicts_with_all = ["only", "kernels", "profile"])]
        peers: bool,
        /// Tell instead in which functions the time goes, and write profiles into the target folder.
        #[arg(long, conflicts_with = "kernels")]
        profile: bool,
    },
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
    /// Run every check that must hold, or only the steps that are named.
    Test { steps: Vec<String> },
    /// Run the fuzz targets under libFuzzer and AddressSanitizer.
    Fuzz {
        /// Only this one.
        target: Option<String>,
        /// How long each runs. An hour over all of them is 250 s each.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// What watches their memory.
        #[arg(long, value_enum, default_value = "address")]
        sanitizer: fuzz::Sanitizer,
    },
    /// Run the tests of the core under Miri.
    Miri,
    /// Check that this state may be released; the release workflow runs it before it publishes anything.
    Release {
        /// The tag of the release, which must be the version.
        #[arg(long)]
        tag: Option<String>,
    },
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
}

fn main() -> ExitCode {
    let chore = Chore::parse();
    let outcome = match environment::root() {
        Some(root) => run(chore, root).map(|()| ExitCode::SUCCESS),
        None => environment::start_again(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(chore: Chore, root: PathBuf) -> Result<()> {
    let project = Project::at(root)?;
    match chore {
        Chore::Setup => setup::all(&project),
        Chore::Build => package::build(&project).and_then(|_| sizes::print(&project)),
        Chore::Model => model::ready(&project).map(drop),
        Chore::Demo { headless: true, .. } => headless::run(&project),
        Chore::Demo { headless: false, port } => demo::run(&project, port),
        Chore::Interop { seed } => interop::run(&project, seed),
        Chore::Bench { rounds, kernels: true, .. } => bench::kernels::run(&project, rounds.into()),
        Chore::Bench { rounds, peers: true, .. } => bench::peers::run(&project, rounds.into()),
        Chore::Bench { rounds, only, profile, .. } => bench::run(&project, rounds.into(), &only, profile),
        Chore::Chaos { minutes, seed, only } => {
            let time = Duration::try_from_secs_f64(minutes * 60.0)?;
            match only {
                Some(chaos::Place::Native) => chaos::run(seed, time),
                Some(chaos::Place::Chromium) => chaos::browser::run(&project, seed, time),
                None => chaos::run(seed, time / 2).and_then(|()| chaos::browser::run(&project, seed, time / 2)),
            }
        }
        Chore::Test { steps } => suite::run(&project, &steps),
        Chore::Fuzz { target, seconds, sanitizer } => fuzz::run(&project, target.as_deref(), seconds, sanitizer),
        Chore::Miri => miri::run(&project),
        Chore::Release { tag } => release::check(&project, tag.as_deref()),
        Chore::Screenshot { dark, phone, whole, out } => {
            let window = if phone { page::PHONE } else { page::DESKTOP };
            screenshot::take(&project, window, dark, whole, &out)
        }
    }
}
