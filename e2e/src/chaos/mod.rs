//! `cargo xtask chaos`: random models, random calls, and a server at its worst. Every tensor is bit-exact, or an error
//! that is documented; and no more is sent than is needed.
//!
//! First natively; then in a browser ([`browser`]), whose tabs close and whose quota ends.

pub mod browser;
pub mod calls;
pub mod model;
pub mod random;
pub mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use calls::{Calls, Outcome};
use model::Model;
use random::Random;
use server::{Sent, Server};

/// What the suite begins with, so that it fails for the same reason again.
pub const SEED: u64 = 2026;

/// How long a run of the suite takes.
pub const SHORT: Duration = Duration::from_secs(10);

/// A load that takes so long hangs.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// Where models are loaded.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Place {
    Native,
    Chromium,
}

/// What is received beyond the payload: hundredths of it.
const MAX_EXCESS_PERCENT: u64 = 5;

/// Of so many in a hundred answers something is wrong.
const FAULT_PERCENTS: [u64; 4] = [3, 10, 25, 50];

/// Up to so many in a hundred, no load should run out of attempts by faults that pass.
const PASSING_PERCENT: u64 = 10;

#[derive(Default)]
struct Totals {
    tensors: u64,
    aborted: u64,
    errors: BTreeMap<&'static str, u64>,
    faults: BTreeMap<server::Fault, u64>,
    requests: u64,
    /// Loads of which every call came to its end.
    whole: Traffic,
    /// Those that an error ended, or the caller.
    broken: Traffic,
}

#[derive(Default)]
struct Traffic {
    loads: u64,
    /// What an honest server sends for the same calls, had the caller waited for them all.
    payload: u64,
    sent: u64,
    sent_for_ignored_ranges: u64,
    overlapped: u64,
    received: u64,
}

/// Loads until the time is up, prints what happened, and fails at the first wrong byte.
pub fn run(seed: u64, time: Duration) -> Result<()> {
    println!("chaos: seed {seed}, {} s", time.as_secs());
    let (start, mut totals) = (Instant::now(), Totals::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    while start.elapsed() < time {
        let number = totals.whole.loads + totals.broken.loads;
        let mut random = Random::new(seed).fork(number);
        let model = Arc::new(Model::new(&mut random)?);
        // To make a model takes longer than to load it.
        for variant in 0..4 {
            let mut random = random.fork(variant);
            let calls = Calls::new(&model, &mut random);
            let what = || format!("load {number}.{variant} of seed {seed}: {}; {calls:?}", model.name);
            runtime.block_on(load(&model, &calls, &mut random, &mut totals)).with_context(what)?;
        }
    }
    totals.print();
    totals.check()
}

async fn load(model: &Arc<Model>, calls: &Calls, random: &mut Random, totals: &mut Totals) -> Result<()> {
    let honest = Server::new(Arc::clone(model), random.clone(), 0)?;
    let expected = limited(calls.patiently().run(model, &honest.url())).await.context("without any fault")?;
    ensure!(expected.errors.is_empty(), "an honest server and {:?}", expected.errors);
    let fault_percent = random.pick(&FAULT_PERCENTS).unwrap_or(0);
    let server = Server::new(Arc::clone(model), random.clone(), fault_percent)?;
    let outcome = limited(calls.run(model, &server.url())).await?;
    let sent = server.sent();
    let passes = fault_percent <= PASSING_PERCENT && sent.faults.keys().all(|fault| fault.passes());
    ensure!(!passes || outcome.errors.is_empty(), "{:?} end in {:?}", sent.faults, outcome.errors);
    totals.add(&expected, &outcome, &sent);
    Ok(())
}

async fn limited(outcome: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    tokio::time::timeout(LOAD_LIMIT, outcome).await.context("it hangs")?
}

impl Totals {
    fn add(&mut self, expected: &Outcome, outcome: &Outcome, sent: &Sent) {
        let is_whole = outcome.errors.is_empty() && outcome.aborted == 0;
        let traffic = if is_whole { &mut self.whole } else { &mut self.broken };
        traffic.loads += 1;
        traffic.payload += expected.bytes_received;
        traffic.received += outcome.bytes_received;
        traffic.sent += sent.bytes;
        traffic.sent_for_ignored_ranges += sent.bytes_of_ignored_ranges;
        traffic.overlapped += sent.overlap_bytes;
        self.tensors += outcome.tensors;
        self.aborted += outcome.aborted;
        self.requests += sent.requests;
        for (code, count) in &outcome.errors {
            *self.errors.entry(code).or_default() += count;
        }
        for (fault, count) in &sent.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    fn print(&self) {
        let loads = self.whole.loads + self.broken.loads;
        println!("{loads} loads, {} tensors bit-exact, 0 wrong bytes", self.tensors);
        println!("{} calls were aborted; errors: {:?}", self.aborted, self.errors);
        println!("{} faults in {} answers: {:?}", self.faults.values().sum::<u64>(), self.requests, self.faults);
        self.whole.print("loads that came to their end");
        self.broken.print("others");
    }

    fn check(&self) -> Result<()> {
        ensure!(self.tensors > 0 && self.whole.loads > 0, "nothing was loaded");
        self.whole.check().and_then(|()| self.broken.check())
    }
}

impl Traffic {
    fn print(&self, which: &str) {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        println!(
            "{} {which}: {} of payload, {} sent, {} received; the rest was in flight when a connection was cut; \
             {} were sent for ignored ranges",
            self.loads,
            megabytes(self.payload),
            megabytes(self.sent),
            megabytes(self.received),
            megabytes(self.sent_for_ignored_ranges),
        );
    }

    /// What was sent and not received was in flight at a cut, on whichever side. A server that ignores a range sends
    /// what it likes: such answers are left out.
    fn check(&self) -> Result<()> {
        let in_flight = self.sent.saturating_sub(self.received);
        let excess = self.payload * MAX_EXCESS_PERCENT / 100 + self.sent_for_ignored_ranges + self.overlapped;
        let allowed = self.payload + excess + in_flight;
        ensure!(self.sent <= allowed, "{} bytes were sent where {allowed} are allowed", self.sent);
        Ok(())
    }
}
