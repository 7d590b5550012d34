//! Runs a case and its baseline in alternating rounds, and computes medians.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::{Case, PageFunction};
use crate::renderer::{Memory, Watch};
use e2e::page::Page;

/// The result of one run of a function of the page.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) ms: f64,
    pub(super) count: u64,
    wasm_memory_bytes: u64,
    #[serde(skip)]
    pub(super) memory: Option<Memory>,
}

/// The rounds of one case.
#[derive(Default)]
pub(super) struct Rounds {
    /// The renderer's memory before anything was loaded.
    baseline_bytes: Option<u64>,
    ours: Vec<Run>,
    plain: Vec<Run>,
    longest_waits_ms: Vec<f64>,
}

/// Medians over the rounds.
pub(super) struct Measured {
    pub(super) ms: f64,
    pub(super) plain_ms: f64,
    /// The median of the ratios of each round, whose runs see the machine in about the same state.
    pub(super) ratio: f64,
    /// The ratio of the shortest times, because other work on the machine only makes times longer.
    pub(super) best_ratio: f64,
    pub(super) peak_bytes: Option<f64>,
    pub(super) plain_peak_bytes: Option<f64>,
    /// The median of the longest input delay of each round.
    pub(super) longest_wait_ms: Option<f64>,
    /// The maximum over all rounds.
    pub(super) wasm_memory_bytes: u64,
}

impl Rounds {
    /// Runs the case and its baseline once without measuring. Records the memory of the page before the first load, so
    /// that memory kept by workers and streams later counts towards the peaks.
    pub(super) fn warm_up(page: &mut Page, case: &Case) -> Result<Self> {
        let runs = [run(page, &case.run)?, run(page, &case.against)?];
        let baseline_bytes = runs.iter().filter_map(|run| Some(run.memory?.held)).min();
        Ok(Rounds { baseline_bytes, ..Rounds::default() })
    }

    /// Adds a round. The order of the case and its baseline alternates.
    pub(super) fn add(&mut self, page: &mut Page, case: &Case) -> Result<()> {
        let ours = |page: &mut Page| run(page, &case.run);
        let plain = |page: &mut Page| run(page, &case.against);
        let (ours, plain) = if self.ours.len().is_multiple_of(2) {
            let plain = plain(page)?;
            (ours(page)?, plain)
        } else {
            (ours(page)?, plain(page)?)
        };
        ensure!(ours.count == case.count, "{}: the result is {} instead of {}", case.name, ours.count, case.count);
        self.ours.push(ours);
        self.plain.push(plain);
        Ok(())
    }

    /// Runs the case once more and measures the longest input delay of the page. Memory of earlier runs is freed
    /// before, because freeing 256 MB takes the page 25 ms, which is not part of a load.
    pub(super) fn watch(&mut self, page: &mut Page, Case { run: (way, parameters), .. }: &Case) -> Result<()> {
        let arguments = format!("({}, {parameters})", json!(way));
        call(page, &format!("prepare{arguments}"))?;
        Watch::begin(page)?;
        let waited = call(page, &format!("longestWait{arguments}"))?;
        self.longest_waits_ms.extend(waited.as_f64());
        Ok(())
    }

    pub(super) fn measured(&self) -> Result<Measured> {
        let middle = |runs: &[Run], of: fn(&Run) -> f64| median(runs.iter().map(of).collect());
        let above_baseline = |memory: Memory| Some(memory.peak.saturating_sub(self.baseline_bytes?) as f64);
        let peaks = |runs: &[Run]| median(runs.iter().filter_map(|run| above_baseline(run.memory?)).collect());
        let best = |runs: &[Run]| runs.iter().map(|run| run.ms).fold(f64::INFINITY, f64::min);
        let ratios = self.ours.iter().zip(&self.plain).map(|(ours, plain)| ours.ms / plain.ms).collect();
        Ok(Measured {
            ms: middle(&self.ours, |run| run.ms).context("no round was measured")?,
            plain_ms: middle(&self.plain, |run| run.ms).context("no round was measured")?,
            ratio: median(ratios).context("no round was measured")?,
            best_ratio: best(&self.ours) / best(&self.plain),
            peak_bytes: peaks(&self.ours),
            plain_peak_bytes: peaks(&self.plain),
            longest_wait_ms: median(self.longest_waits_ms.clone()),
            wasm_memory_bytes: self.ours.iter().map(|run| run.wasm_memory_bytes).max().unwrap_or_default(),
        })
    }
}

/// Runs a case once and returns the time in milliseconds.
pub(super) fn run_case(page: &mut Page, case: &Case) -> Result<f64> {
    Ok(run(page, &case.run)?.ms)
}

pub(super) fn run(page: &mut Page, way: &PageFunction) -> Result<Run> {
    let run = run_and_keep(page, way)?;
    call(page, "release()")?;
    Ok(run)
}

/// Runs a function of the page, which keeps what it loaded until `release()`.
pub(super) fn run_and_keep(page: &mut Page, (way, parameters): &PageFunction) -> Result<Run> {
    let arguments = format!("({}, {parameters})", json!(way));
    call(page, &format!("prepare{arguments}"))?;
    let watch = Watch::begin(page)?;
    let result = call(page, &format!("run{arguments}"))?;
    let mut run: Run = serde_json::from_value(result).with_context(|| format!("cannot parse the result of {way}"))?;
    run.memory = watch.and_then(|watch| watch.memory());
    Ok(run)
}

/// Calls a function that `bench.js` exports.
pub(super) fn call(page: &mut Page, call: &str) -> Result<Value> {
    page.evaluate(&format!(r#"import("/bench/bench.js").then((bench) => bench.{call})"#))
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get(values.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2.0)
}
