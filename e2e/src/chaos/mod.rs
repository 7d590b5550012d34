//! `cargo xtask chaos`: loads random models with random calls from a faulty server. Every tensor must be bit-exact or
//! fail with a documented error, and no unnecessary bytes may be sent.
//!
//! The test runs natively, and in a browser ([`browser`]) with closing tabs and exceeded quotas.

pub mod browser;
pub mod calls;
pub mod check;
pub mod faults;
pub mod faulty_server;
pub mod habits;
pub mod model;
pub mod open_files;
pub mod random;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use calls::{Calls, Outcome};
use faults::Fault;
use faulty_server::{Sent, Server};
use model::Model;
use random::Random;

/// The default seed, which makes failures of the suite reproducible.
pub const SEED: u64 = 2026;

/// How long a run of the suite takes.
pub const SHORT: Duration = Duration::from_secs(10);

/// A load that takes longer is considered hung.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// The platform on which models are loaded.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Platform {
    Native,
    Chromium,
}

/// The maximum number of bytes received beyond the payload, in percent of it.
const MAX_EXCESS_PERCENT: u64 = 5;

/// The percentages of responses with a fault.
const FAULT_PERCENTS: [u64; 4] = [3, 10, 25, 50];

/// Up to this percentage of responses with a fault, transient faults must not exhaust the attempts of a load.
const MAX_TRANSIENT_PERCENT: u64 = 10;

#[derive(Default)]
struct Totals {
    tensors: u64,
    aborted: u64,
    errors: BTreeMap<&'static str, u64>,
    faults: BTreeMap<Fault, u64>,
    requests: u64,
    /// Loads whose calls all completed.
    whole: Traffic,
    /// Loads with a failed or aborted call.
    broken: Traffic,
}

#[derive(Default)]
struct Traffic {
    loads: u64,
    /// The bytes that a server without faults sends for the same calls without aborts.
    payload: u64,
    sent: u64,
    sent_for_ignored_ranges: u64,
    overlapped: u64,
    received: u64,
}

/// Loads models, from the one with the number `first` on, until the time is up and prints a summary. Fails at the first
/// wrong byte.
pub fn run(seed: u64, first: u64, time: Duration) -> Result<()> {
    println!("chaos: seed {seed}, {} s", time.as_secs());
    let (start, mut totals) = (Instant::now(), Totals::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    while start.elapsed() < time {
        let number = first + totals.whole.loads + totals.broken.loads;
        let mut random = Random::new(seed).fork(number);
        let model = Arc::new(Model::new(&mut random)?);
        // Generating a model takes longer than loading it.
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
    let faultless = Server::faultless(Arc::clone(model), random.clone());
    let expected = limited(calls.without_aborts().run(model, &faultless)).await.context("without any fault")?;
    ensure!(expected.errors.is_empty(), "errors without any fault: {:?}", expected.errors);
    let fault_percent = random.pick(&FAULT_PERCENTS).unwrap_or(0);
    let server = Server::new(Arc::clone(model), random.clone(), fault_percent);
    let outcome = limited(calls.run(model, &server)).await;
    let sent = server.sent();
    let outcome = outcome.with_context(|| format!("with {:?} of {:?}", sent.faults, server.habits()))?;
    let may_fail = fault_percent > MAX_TRANSIENT_PERCENT || !sent.is_transient();
    let is_explained = outcome.errors.keys().all(|code| may_fail && sent.explains(code));
    let (faults, habits, messages) = (&sent.faults, server.habits(), &outcome.messages);
    ensure!(is_explained, "the faults {faults:?} of {habits:?} do not explain {messages:?}");
    totals.add(&expected, &outcome, &sent);
    Ok(())
}

async fn limited(outcome: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    tokio::time::timeout(LOAD_LIMIT, outcome).await.context("the load hangs")?
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
        println!("{} faults in {} responses: {:?}", self.faults.values().sum::<u64>(), self.requests, self.faults);
        self.whole.print("completed loads");
        self.broken.print("incomplete loads");
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

    /// Bytes that were sent but not received were in flight when either side closed the connection. Responses that
    /// ignore the range do not count.
    fn check(&self) -> Result<()> {
        let in_flight = self.sent.saturating_sub(self.received);
        let excess = self.payload * MAX_EXCESS_PERCENT / 100 + self.sent_for_ignored_ranges + self.overlapped;
        let allowed = self.payload + excess + in_flight;
        ensure!(self.sent <= allowed, "{} bytes were sent where {allowed} are allowed", self.sent);
        Ok(())
    }
}
