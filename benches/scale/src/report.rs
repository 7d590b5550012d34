//! Prints what was measured.

use std::time::Duration;

use crate::client::Visit;
use crate::faults::Outage;
use crate::line::Line;
use crate::network::CLIENT_LINES;
use crate::servers::Cache;
use crate::spread::{busiest, histogram, quantile, width};
use crate::{outage, visits};

const MEGABYTE: f64 = 1e6;

/// A measured time of a client.
type Time = fn(&Visit) -> Duration;

/// What is reported of each line.
const TIMES: [(&str, Time); 4] = [
    ("open", |visit| visit.open),
    ("rows read", |visit| visit.rows),
    ("first tensor", |visit| visit.first_tensor),
    ("all tensors", |visit| visit.total),
];

pub(crate) fn print_visits(cache: Cache, outcome: &visits::Outcome, model_bytes: u64) {
    let visits::Outcome { visits, failures, requests, origin, time } = outcome;
    println!(
        "\n{cache:?}: {} clients finished in {:.0} s, {} failed",
        visits.len(),
        time.as_secs_f64(),
        failures.len()
    );
    for failure in failures.iter().take(5) {
        println!("  {failure}");
    }
    let sent: u64 = requests.iter().map(|request| request.bytes).sum();
    let received: u64 = visits.iter().map(|(_, visit)| visit.bytes).sum();
    let megabytes = |bytes: u64| bytes as f64 / MEGABYTE;
    println!("  the edge sent {:.1} MB; clients received {:.1} MB", megabytes(sent), megabytes(received));
    let (origin_bytes, times) = (megabytes(origin.bytes), origin.bytes as f64 / model_bytes as f64);
    println!("  the origin sent {origin_bytes:.1} MB in {} requests: {times:.2} times the model", origin.requests);
    let busy = requests.iter().filter(|request| request.status == Some(503)).count();
    let cut = requests.iter().filter(|request| request.is_cut).count();
    let ended = requests.iter().filter(|request| !request.is_whole && !request.is_cut).count();
    let answered = requests.len() - busy;
    let hits = requests.iter().filter(|request| request.is_hit).count();
    let (request_rate, byte_rate) = (percent(hits, answered), 100.0 - 100.0 * origin.bytes as f64 / sent as f64);
    println!("  hit rate: {request_rate:.1} % of requests, {byte_rate:.1} % of bytes");
    let made: u64 = visits.iter().map(|(_, visit)| visit.requests).sum();
    let per_client = made as f64 / visits.len() as f64;
    let mut most: Vec<_> = visits.iter().map(|(_, visit)| visit.requests).collect();
    most.sort_unstable();
    let most = most.last().copied().unwrap_or(0);
    println!("  {} requests at the edge; {per_client:.1} per client, at most {most}", requests.len());
    println!("  retried: {busy} responses 503, {cut} responses that broke; {ended} responses were ended by clients");
    println!("\n| line | time until | median | p95 | p99 |\n| --- | --- | --- | --- | --- |");
    for line in CLIENT_LINES {
        for (name, time) in TIMES {
            let mut times: Vec<_> = visits.iter().filter(|(of, _)| is_same(of, &line)).map(|(_, v)| time(v)).collect();
            times.sort_unstable();
            let [median, p95, p99] = [0.5, 0.95, 0.99].map(|part| quantile(&times, part).as_secs_f64());
            let megabits = line.bits_per_second / 1e6;
            println!("| {megabits} Mb/s | {name} | {median:.2} s | {p95:.2} s | {p99:.2} s |");
        }
    }
}

pub(crate) fn print_outage(kind: Outage, plan: outage::Plan, outcome: &outage::Outcome) {
    let outage::Outcome { returns, before, failed_requests, failures } = outcome;
    let steady = before.len() as f64 / (plan.before / 2).as_secs_f64();
    println!("\nOutage of {} s: {}", plan.length.as_secs(), kind.describe());
    println!("  {} of {} clients returned, {} gave up", returns.len(), plan.clients, failures.len());
    for failure in failures.iter().take(2) {
        println!("  {failure}");
    }
    println!("  requests per second before the outage: {steady:.0}; failed during it: {failed_requests}");
    let [p10, p50, p90] = [0.1, 0.5, 0.9].map(|part| quantile(returns, part).as_secs_f64());
    println!("  first requests after it: 10 % within {p10:.2} s, 50 % within {p50:.2} s, 90 % within {p90:.2} s");
    let [tenth, second] =
        [100, 1000].map(|window| percent(busiest(returns, Duration::from_millis(window)), returns.len()));
    let width = width(returns).as_secs_f64();
    println!("  spread (p10 to p90): {width:.2} s; busiest 100 ms: {tenth:.0} %; busiest second: {second:.0} %");
    let counts: Vec<_> = histogram(returns, Duration::from_millis(100)).iter().map(usize::to_string).collect();
    println!("  per 100 ms: {}", counts.join(" "));
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn is_same(one: &Line, other: &Line) -> bool {
    one.bits_per_second == other.bits_per_second
}
