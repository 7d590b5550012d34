//! `cargo xtask bench`: measures loading and compares the results with the project's goals.

#![warn(clippy::too_many_lines)]

mod browser;
mod cases;
mod content;
mod firefox;
mod first_use;
mod kernels;
mod layouts;
mod measure;
mod models;
mod native;
mod nginx;
mod peers;
mod phone;
mod plot;
mod profile;
mod quantized;
mod renderer;
mod report;
mod runtimes;
mod scaling;
mod scaling_plot;
mod streams;
mod throttle;

use std::process::ExitCode;

use anyhow::Result;
use browser::Output;
use clap::Parser;
use xtask::environment;
use xtask::project::Project;

/// Measure loading in a headless browser relative to plain `fetch()`, and compare with the targets.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// The number of rounds of each case. Each round runs the case and its baseline.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Run only this case, without updating the results in `benches/`. Can be given more than once.
    #[arg(long)]
    only: Vec<String>,
    /// Measure individual decoders, digests and parsers instead.
    #[arg(long, conflicts_with = "only")]
    kernels: bool,
    /// Compare with other libraries that load weights instead.
    #[arg(long, conflicts_with_all = ["only", "kernels", "profile"])]
    peers: bool,
    /// Measure the time and memory until the first output of runtimes, with their own loaders and with weightstream.
    #[arg(long, conflicts_with_all = ["kernels", "peers"])]
    runtimes: bool,
    /// Measure a few cases in Firefox instead.
    #[arg(long, conflicts_with_all = ["only", "kernels", "peers", "runtimes", "profile"])]
    firefox: bool,
    /// Measure `verify` and `convert` of the command line instead.
    #[arg(long, conflicts_with_all = ["only", "kernels", "peers", "runtimes", "profile", "firefox"])]
    native: bool,
    /// Print the functions that take the most time instead, and write profiles to the target folder.
    #[arg(long, conflicts_with = "kernels")]
    profile: bool,
}

fn main() -> ExitCode {
    environment::run(|root| run(&Arguments::parse(), &Project::at(root)?))
}

fn run(arguments: &Arguments, project: &Project) -> Result<()> {
    let rounds = arguments.rounds.into();
    let output = if arguments.profile { Output::Profiles } else { Output::Times };
    match arguments {
        Arguments { kernels: true, .. } => kernels::run(project, rounds),
        Arguments { peers: true, .. } => peers::run(project, rounds),
        Arguments { firefox: true, .. } => firefox::run(project, rounds),
        Arguments { native: true, .. } => native::run(project, rounds),
        Arguments { runtimes: true, only, .. } => runtimes::run(project, rounds, only, output),
        Arguments { only, .. } => browser::run(project, rounds, only, output),
    }
}
