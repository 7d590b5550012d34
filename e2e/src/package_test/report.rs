//! What `tests/package/app/check.js` reports, and what it must report.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::sample::Sample;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    first: Load,
    cold: Load,
    warm: Load,
    cached_bytes: u64,
    workers: Load,
    in_worker: Load,
    loaders_in_workers: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Load {
    whole: String,
    rows: String,
    tensors: BTreeMap<String, String>,
    bytes_received: u64,
    bytes_from_cache: u64,
    cache_error: Option<String>,
    workers_error: Option<String>,
}

/// What an environment has. What it lacks must be reported in `stats`, with this text.
#[derive(Clone, Copy, Default)]
pub(super) struct Lacks {
    pub(super) cache: Option<&'static str>,
    pub(super) workers: Option<&'static str>,
}

/// A probe of the server for the cached version, and the header of a file that is too small to be cached.
const MAX_WARM_BYTES: u64 = 1000;

/// Checks the report of an app that loaded the sample.
pub(super) fn check(report: Value, sample: &Sample, lacks: Lacks) -> Result<()> {
    let printed = report.to_string();
    let report: Report = serde_json::from_value(report).with_context(|| printed.clone())?;
    check_loads(&report, sample, lacks).with_context(|| printed)
}

fn check_loads(report: &Report, sample: &Sample, lacks: Lacks) -> Result<()> {
    let Report { first, cold, warm, workers, in_worker, .. } = report;
    let loads = [("first", first), ("cold", cold), ("warm", warm), ("workers", workers), ("in a worker", in_worker)];
    for (name, load) in loads {
        ensure!(load.tensors == sample.tensors, "{name}: the tensors differ");
        ensure!(Some(&load.whole) == sample.tensors.get(super::sample::MATRIX), "{name}: a single tensor differs");
        ensure!(load.rows == sample.rows, "{name}: rows differ");
    }
    for (name, load) in [("first", first), ("cold", cold), ("warm", warm), ("in a worker", in_worker)] {
        ensure!(says(&load.cache_error, lacks.cache), "{name}: the error of the cache is {:?}", load.cache_error);
    }
    for (name, load) in [("workers", workers), ("in a worker", in_worker)] {
        ensure!(says(&load.workers_error, lacks.workers), "{name}: the error of workers is {:?}", load.workers_error);
    }
    ensure!(report.loaders_in_workers == u64::from(lacks.workers.is_none()), "a loader was not in its worker");
    let has_cache = report.cached_bytes > 0;
    ensure!(has_cache || lacks.cache.is_some(), "nothing is cached, and stats do not say why");
    if has_cache {
        ensure!(cold.bytes_from_cache == 0 || cold.bytes_received > warm.bytes_received, "the cache was not empty");
        ensure!(warm.bytes_received < MAX_WARM_BYTES, "{} cached bytes are fetched again", warm.bytes_received);
        ensure!(report.cached_bytes > cold.bytes_received / 2, "only {} bytes are cached", report.cached_bytes);
    }
    Ok(())
}

/// Whether the page received all bytes of the sample when it first loaded it: nothing was cached before.
pub(super) fn was_first_visit(report: &Value, sample: &Sample) -> bool {
    let received = report.pointer("/first/bytesReceived").and_then(Value::as_u64);
    received.is_some_and(|received| received >= sample.byte_length)
}

/// Whether an error contains the text, or there is none if no text is wanted.
fn says(error: &Option<String>, wanted: Option<&str>) -> bool {
    match (error, wanted) {
        (Some(error), Some(wanted)) => error.contains(wanted),
        (error, wanted) => error.is_none() && wanted.is_none(),
    }
}
