//! Clients whose responses are slow now and then, with and without mirrors. No cache is between them and the origin.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use futures::stream;
use tokio::runtime::Builder;

use crate::client::Client;
use crate::faults::Faults;
use crate::line::Line;
use crate::model::Model;
use crate::proxy::Proxy;
use crate::servers::Server;
use crate::spread::quantile;

const LINE: Line = Line::new(20, 20);

/// Few, so that the machine does not limit the loads.
const CLIENTS_AT_ONCE: usize = 8;

const SLOW_PERCENT: u32 = 10;

/// What the clients have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    name: &'static str,
    slow_percent: u32,
    has_mirrors: bool,
}

pub(crate) const CASES: [Case; 3] = [
    Case { name: "one address, no slow responses", slow_percent: 0, has_mirrors: false },
    Case { name: "one address, 10 % slow responses", slow_percent: SLOW_PERCENT, has_mirrors: false },
    Case {
        name: "10 % slow responses at the first address and at a mirror, and a dead mirror",
        slow_percent: SLOW_PERCENT,
        has_mirrors: true,
    },
];

/// What was measured.
pub(crate) struct Outcome {
    /// The time of each load, sorted.
    times: Vec<Duration>,
    failures: Vec<String>,
    /// The bytes that the loaders used, and those that the servers sent.
    used: u64,
    sent: u64,
}

pub(crate) fn run(model: &Rc<Model>, case: Case, clients: usize, seed: u64) -> Result<Outcome> {
    let origin = Server::origin(model.folder.path())?;
    let lines = vec![LINE; clients];
    let faults = Faults { slow_percent: case.slow_percent, ..Faults::default() };
    let servers = [seed, seed + 1].map(|seed| Proxy::start(origin.address, &lines, faults, seed));
    let [first, mirror] = servers;
    let (first, mirror) = (first?, mirror?);
    let dead = TcpListener::bind("127.0.0.1:0")?; // it accepts nothing
    let dead_address = dead.local_addr()?;
    let addresses = |client: usize| -> Vec<SocketAddr> {
        let [own, other] = [&first, &mirror].map(|proxy| proxy.addresses.get(client).copied());
        let mirrors = [Some(dead_address), other].into_iter().filter(|_| case.has_mirrors);
        std::iter::once(own).chain(mirrors).flatten().collect()
    };
    let visit = |client: usize| {
        let (model, addresses) = (Rc::clone(model), addresses(client));
        async move { Client::open(model, &addresses, seed + client as u64).await?.visit(1).await }
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let visits: Vec<_> =
        runtime.block_on(stream::iter(0..clients).map(visit).buffer_unordered(CLIENTS_AT_ONCE).collect());
    let sent = [&first, &mirror].iter().flat_map(|proxy| proxy.requests()).map(|request| request.bytes).sum();
    let mut outcome = Outcome { times: Vec::new(), failures: Vec::new(), used: 0, sent };
    for visit in visits {
        match visit {
            Ok(visit) => {
                outcome.times.push(visit.total);
                outcome.used += visit.bytes;
            }
            Err(error) => outcome.failures.push(format!("{error:#}")),
        }
    }
    outcome.times.sort_unstable();
    Ok(outcome)
}

pub(crate) fn print(case: Case, outcome: &Outcome) {
    let Outcome { times, failures, used, sent } = outcome;
    println!("\n{}: {} loads, {} failed", case.name, times.len(), failures.len());
    for failure in failures.iter().take(5) {
        println!("  {failure}");
    }
    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|part| quantile(times, part).as_secs_f64());
    println!("  p50 {p50:.2} s, p95 {p95:.2} s, p99 {p99:.2} s: p99 is {:.2} of p50", p99 / p50);
    let more = 100.0 * (*sent as f64 / *used as f64 - 1.0);
    println!("  servers sent {:.1} MB, {more:.1} % more than was used", *sent as f64 / 1e6);
}
