//! `cargo xtask bench`: measures loading, and what the project promises of it.

mod browser;
mod cases;
mod kernels;
mod line;
mod made_up;
mod measure;
mod models;
mod nginx;
mod peers;
mod plot;
mod profile;
mod renderer;
mod report;
mod scaling;
mod scaling_plot;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use xtask::environment;
use xtask::project::Project;

/// Measure loading in a headless browser against plain `fetch()`, and what was promised of it.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
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
    /// Print the functions in which the time goes instead, and write profiles into the target folder.
    #[arg(long, conflicts_with = "kernels")]
    profile: bool,
}

fn main() -> ExitCode {
    environment::run(|root| run(&Arguments::parse(), &Project::at(root)?))
}

fn run(arguments: &Arguments, project: &Project) -> Result<()> {
    let rounds = arguments.rounds.into();
    match arguments {
        Arguments { kernels: true, .. } => kernels::run(project, rounds),
        Arguments { peers: true, .. } => peers::run(project, rounds),
        Arguments { only, profile, .. } => browser::run(project, rounds, only, *profile),
    }
}
