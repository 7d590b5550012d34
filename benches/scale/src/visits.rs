//! Many clients open the model, read rows and load shards, while connections break and requests fail.

use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future;
use tokio::runtime::Builder;

use crate::client::{Client, Visit};
use crate::faults::Faults;
use crate::line::Line;
use crate::model::Model;
use crate::network::{CLIENT_LINES, Network};
use crate::proxy::Request;
use crate::servers::{Cache, Sent};

const FAULTS: Faults = Faults { cut_percent: 3, busy_percent: 2, slow_percent: 0 };

/// How many clients there are, and what they do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) clients: usize,
    /// Clients start at random times within this time.
    pub(crate) arrivals: Duration,
    /// How many shards each client loads.
    pub(crate) shards: usize,
    pub(crate) seed: u64,
}

/// What was measured.
pub(crate) struct Outcome {
    /// The clients that finished, each with its line.
    pub(crate) visits: Vec<(Line, Visit)>,
    /// The errors of the others.
    pub(crate) failures: Vec<String>,
    /// The requests at the edge.
    pub(crate) requests: Vec<Request>,
    pub(crate) origin: Sent,
    pub(crate) time: Duration,
}

pub(crate) fn run(model: &Rc<Model>, cache: Cache, plan: Plan) -> Result<Outcome> {
    let lines: Vec<_> = CLIENT_LINES.iter().copied().cycle().take(plan.clients).collect();
    let network = Network::start(model, cache, &lines, FAULTS, plan.seed)?;
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let start = Instant::now();
    let visits = network.edge.addresses.iter().map(|&address| {
        let (arrival, seed, model) = (plan.arrivals.mul_f64(random.f64()), random.u64(..), Rc::clone(model));
        async move {
            tokio::time::sleep(arrival).await;
            Client::open(model, &[address], seed).await?.visit(plan.shards).await
        }
    });
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let visits = runtime.block_on(async { future::join_all(visits).await });
    let time = start.elapsed();
    sleep(Duration::from_millis(200)); // until the last response is in the log of the origin
    let (mut finished, mut failures) = (Vec::new(), Vec::new());
    for (line, visit) in lines.into_iter().zip(visits) {
        match visit {
            Ok(visit) => finished.push((line, visit)),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    let (requests, origin) = (network.edge.requests(), network.origin.sent()?);
    network.edge.stop()?;
    Ok(Outcome { visits: finished, failures, requests, origin, time })
}
