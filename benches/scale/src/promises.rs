//! The promises that the test suite checks with few clients. No promise depends on the speed of the machine.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::faults::Outage;
use crate::model::Model;
use crate::servers::Cache;
use crate::{outage, report, spread, visits};

const CLIENTS: usize = 50;

/// Less than one shard more than the model: the manifest expires, and a cache requests it again.
const MAX_ORIGIN_MODELS: f64 = 1.1;

/// The minimum time in which the middle 80 % of the clients return. It takes 0.05 to 0.25 s without jitter, and about
/// 0.8 s with it. A machine that pauses for some tenths of a second changes neither much.
const MIN_SPREAD: Duration = Duration::from_millis(400);

pub(crate) fn check() -> Result<()> {
    let model = Rc::new(Model::write(4, 1 << 20)?);
    for cache in [Cache::Varnish, Cache::Nginx] {
        let plan = visits::Plan { clients: CLIENTS, arrivals: Duration::from_secs(1), shards: 2, seed: 1 };
        let outcome = visits::run(&model, cache, plan)?;
        report::print_visits(cache, &outcome, model.bytes);
        all_clients_finish_with_verified_tensors(&outcome)?;
        the_origin_sends_each_byte_about_once(&outcome, &model)?;
    }
    for kind in Outage::ALL {
        let length = Duration::from_secs(2);
        let plan = outage::Plan { clients: CLIENTS, before: Duration::from_secs(2), length, seed: 1 };
        let outcome = outage::run(&model, Cache::Varnish, kind, plan)?;
        report::print_outage(kind, plan, &outcome);
        clients_return_at_different_times(&outcome)?;
    }
    Ok(())
}

/// [`visits::run`] has compared every byte.
fn all_clients_finish_with_verified_tensors(outcome: &visits::Outcome) -> Result<()> {
    ensure!(outcome.failures.is_empty() && outcome.visits.len() == CLIENTS, "failed: {:?}", outcome.failures);
    Ok(())
}

fn the_origin_sends_each_byte_about_once(outcome: &visits::Outcome, model: &Model) -> Result<()> {
    let models = outcome.origin.bytes as f64 / model.bytes as f64;
    ensure!(models <= MAX_ORIGIN_MODELS, "the origin sent {models:.2} times the model");
    Ok(())
}

fn clients_return_at_different_times(outcome: &outage::Outcome) -> Result<()> {
    ensure!(outcome.failures.is_empty(), "clients gave up: {:?}", outcome.failures);
    ensure!(outcome.returns.len() == CLIENTS, "{} of {CLIENTS} clients returned", outcome.returns.len());
    let width = spread::width(&outcome.returns);
    ensure!(width >= MIN_SPREAD, "clients returned within {width:?}");
    Ok(())
}
