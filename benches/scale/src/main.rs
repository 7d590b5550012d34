//! Simulates many clients of one model: lines with limited bandwidth, a cache, an origin, faults and outages. All
//! servers and clients are real; see docs/scale.md.

#![warn(clippy::too_many_lines)]

mod client;
mod connection;
mod faults;
mod line;
mod mirrors;
mod model;
mod network;
mod outage;
mod promises;
mod proxy;
mod report;
mod servers;
mod spread;
mod visits;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use faults::Outage;
use model::Model;
use servers::Cache;
use xtask::environment;

/// Simulate many clients that load a model through a cache.
#[derive(Parser)]
#[command(name = "cargo run --release -p scale-simulation --")]
struct Arguments {
    /// The number of clients.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// The number of shards of the model.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    shards: u16,
    /// The size of a shard in MiB.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    shard_mib: u16,
    /// How many shards each client loads.
    #[arg(long, default_value_t = 2)]
    load: u16,
    /// The time within which clients arrive, in seconds.
    #[arg(long, default_value_t = 60)]
    arrivals: u16,
    /// The length of the outages, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    outage: u16,
    /// The seed of arrivals, faults and choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulate only this cache. Can be given more than once. The outages use the first one.
    #[arg(long, value_enum, default_values = ["varnish", "nginx"])]
    cache: Vec<Cache>,
    /// Simulate only this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Test with few clients that all of them finish, that the origin sends each byte about once, and that clients
    /// return at different times after an outage.
    #[arg(long, exclusive = true)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Part {
    Visits,
    Outages,
    Mirrors,
}

fn main() -> ExitCode {
    environment::run(|_| run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check {
        return promises::check();
    }
    let model = Rc::new(Model::write(arguments.shards.into(), usize::from(arguments.shard_mib) << 20)?);
    println!("model: {} shards, {:.1} MB", model.shards.len(), model.bytes as f64 / 1e6);
    let (clients, seed) = (arguments.clients.into(), arguments.seed);
    if arguments.only.is_none_or(|part| part == Part::Visits) {
        let arrivals = Duration::from_secs(arguments.arrivals.into());
        let plan = visits::Plan { clients, arrivals, shards: arguments.load.into(), seed };
        for &cache in &arguments.cache {
            report::print_visits(cache, &visits::run(&model, cache, plan)?, model.bytes);
        }
    }
    if arguments.only.is_none_or(|part| part == Part::Mirrors) {
        for case in mirrors::CASES {
            mirrors::print(case, &mirrors::run(&model, case, clients, seed)?);
        }
    }
    if arguments.only.is_none_or(|part| part == Part::Outages) {
        let length = Duration::from_secs(arguments.outage.into());
        let plan = outage::Plan { clients, before: Duration::from_secs(10), length, seed };
        for outage in Outage::ALL {
            for &cache in arguments.cache.iter().take(1) {
                report::print_outage(outage, plan, &outage::run(&model, cache, outage, plan)?);
            }
        }
    }
    Ok(())
}
