//! All clients are loading when the service fails for some seconds. When do they come back?

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use futures::future;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::faults::{Faults, Outage};
use crate::line::Line;
use crate::model::Model;
use crate::network::Network;
use crate::proxy::Request;
use crate::servers::Cache;

/// Slow enough that most clients are in the middle of a tensor at any time: the worst case, in which all of them fail
/// at the same moment.
const LINE: Line = Line::new(4, 20);

/// How long clients are awaited after an outage: longer than the longest delay between two attempts.
const RETURN_LIMIT: Duration = Duration::from_secs(30);

/// How many clients there are, and how long the service works and fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) clients: usize,
    /// The time before the outage. Clients start in its first half.
    pub(crate) before: Duration,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
}

/// What was measured.
pub(crate) struct Outcome {
    /// The time from the end of the outage to the first request of each client that returned, sorted.
    pub(crate) returns: Vec<Duration>,
    /// The requests at the edge in the second half of the time before the outage.
    pub(crate) before: Vec<Duration>,
    /// The requests that failed during the outage.
    pub(crate) failed_requests: usize,
    /// The errors of clients whose attempts were used up.
    pub(crate) failures: Vec<String>,
}

pub(crate) fn run(model: &Rc<Model>, cache: Cache, outage: Outage, plan: Plan) -> Result<Outcome> {
    let lines = vec![LINE; plan.clients];
    let network = Network::start(model, cache, &lines, Faults::default(), plan.seed)?;
    let edge = &network.edge;
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let has_ended = Rc::new(Cell::new(false));
    let clients = edge.addresses.iter().map(|&address| {
        let arrival = (plan.before / 2).mul_f64(random.f64());
        let (seed, model, has_ended) = (random.u64(..), Rc::clone(model), Rc::clone(&has_ended));
        async move {
            sleep(arrival).await;
            let mut client = Client::open(model, &[address], seed).await?;
            while !has_ended.get() {
                client.load_one().await?;
            }
            Ok(())
        }
    });
    let service = async {
        sleep(plan.before).await;
        let start = edge.now();
        edge.begin_outage(outage, plan.length);
        sleep(plan.length).await;
        let end = edge.end_outage();
        let limit = Instant::now() + RETURN_LIMIT;
        while returns(&edge.requests(), end).len() < plan.clients && Instant::now() < limit {
            sleep(Duration::from_millis(200)).await;
        }
        has_ended.set(true);
        (start, end)
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (outcomes, (start, end)) = runtime.block_on(future::join(future::join_all(clients), service));
    let requests = edge.requests();
    let at = |range: std::ops::Range<Duration>| {
        requests.iter().map(|request| request.at).filter(move |at| range.contains(at))
    };
    let outcome = Outcome {
        returns: returns(&requests, end),
        before: at(start - plan.before / 2..start).collect(),
        failed_requests: at(start..end).count(),
        failures: outcomes
            .into_iter()
            .filter_map(Result::err)
            .map(|error: anyhow::Error| format!("{error:#}"))
            .collect(),
    };
    network.edge.stop()?;
    Ok(outcome)
}

/// The time from `end` to the first request of each client after it, sorted.
fn returns(requests: &[Request], end: Duration) -> Vec<Duration> {
    let mut returned = BTreeSet::new();
    let later = requests.iter().filter(|request| request.at >= end);
    later.filter(|request| returned.insert(request.client)).map(|request| request.at - end).collect()
}
