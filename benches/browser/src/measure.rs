//! Rounds of a case and what it is compared with, in turn, and what comes out in the middle.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::{Case, Way};
use crate::renderer::{Memory, Watch};
use e2e::page::Page;

/// One run of one function of the page.
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
    /// What the renderer held before anything was loaded.
    floor_bytes: Option<u64>,
    ours: Vec<Run>,
    plain: Vec<Run>,
    longest_waits_ms: Vec<f64>,
}

/// Medians over the rounds.
pub(super) struct Measured {
    pub(super) ms: f64,
    pub(super) plain_ms: f64,
    /// Of the ratios of each round: both of its runs saw the machine in about the same state.
    pub(super) ratio: f64,
    /// Of the shortest times: other work on the machine only ever makes them longer.
    pub(super) best_ratio: f64,
    pub(super) peak_bytes: Option<f64>,
    pub(super) plain_peak_bytes: Option<f64>,
    /// How long a tap would have waited for the page, at the most.
    pub(super) longest_wait_ms: Option<f64>,
    /// The most of all rounds.
    pub(super) wasm_memory_bytes: u64,
}

impl Rounds {
    /// Runs both once, which does not count, and notes what a page holds that has loaded nothing yet: what workers and
    /// streams keep from then on belongs to the peaks.
    pub(super) fn warm_up(page: &mut Page, case: &Case) -> Result<Self> {
        let runs = [run(page, &case.run)?, run(page, &case.against)?];
        let floor_bytes = runs.iter().filter_map(|run| Some(run.memory?.held)).min();
        Ok(Rounds { floor_bytes, ..Rounds::default() })
    }

    /// Adds a round; which of the two comes first alternates.
    pub(super) fn add(&mut self, page: &mut Page, case: &Case) -> Result<()> {
        let ours = |page: &mut Page| run(page, &case.run);
        let plain = |page: &mut Page| run(page, &case.against);
        let (ours, plain) = if self.ours.len().is_multiple_of(2) {
            let plain = plain(page)?;
            (ours(page)?, plain)
        } else {
            (ours(page)?, plain(page)?)
        };
        ensure!(ours.count == case.count, "{}: {} came out of it, not {}", case.name, ours.count, case.count);
        self.ours.push(ours);
        self.plain.push(plain);
        Ok(())
    }

    /// Runs the case once more, and looks how long the page cannot answer. What earlier runs have left is gone before:
    /// to free 256 MB takes the page 25 ms, which is no part of a load.
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
        let above_floor = |memory: Memory| Some(memory.peak.saturating_sub(self.floor_bytes?) as f64);
        let peaks = |runs: &[Run]| median(runs.iter().filter_map(|run| above_floor(run.memory?)).collect());
        let best = |runs: &[Run]| runs.iter().map(|run| run.ms).fold(f64::INFINITY, f64::min);
        let ratios = self.ours.iter().zip(&self.plain).map(|(ours, plain)| ours.ms / plain.ms).collect();
        Ok(Measured {
            ms: middle(&self.ours, |run| run.ms).context("no round was run")?,
            plain_ms: middle(&self.plain, |run| run.ms).context("no round was run")?,
            ratio: median(ratios).context("no round was run")?,
            best_ratio: best(&self.ours) / best(&self.plain),
            peak_bytes: peaks(&self.ours),
            plain_peak_bytes: peaks(&self.plain),
            longest_wait_ms: median(self.longest_waits_ms.clone()),
            wasm_memory_bytes: self.ours.iter().map(|run| run.wasm_memory_bytes).max().unwrap_or_default(),
        })
    }
}

/// Runs a case once and gives the milliseconds.
pub(super) fn run_case(page: &mut Page, case: &Case) -> Result<f64> {
    Ok(run(page, &case.run)?.ms)
}

pub(super) fn run(page: &mut Page, way: &Way) -> Result<Run> {
    let run = hold(page, way)?;
    call(page, "release()")?;
    Ok(run)
}

/// Runs it and has the page keep what was loaded.
pub(super) fn hold(page: &mut Page, (way, parameters): &Way) -> Result<Run> {
    let arguments = format!("({}, {parameters})", json!(way));
    call(page, &format!("prepare{arguments}"))?;
    let watch = Watch::begin(page)?;
    let told = call(page, &format!("run{arguments}"))?;
    let mut run: Run = serde_json::from_value(told).with_context(|| format!("{way} tells something else"))?;
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
