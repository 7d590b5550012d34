//! The table of results, and the same as JSON.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::models::Variant;
use super::scenarios::{Connection, Sample, Samples, Scenario, State, Way};
use crate::measure::median;

/// All results of one run.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) browser: String,
    pub(super) cores: usize,
    /// The load average of the last minute before and after the run.
    pub(super) load: [f64; 2],
    pub(super) rounds: usize,
    pub(super) rows: Vec<Row>,
}

/// One line of the table.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) title: String,
    pub(super) quantity: &'static str,
    /// Medians. `None` if there is nothing to compare with.
    pub(super) theirs: Option<f64>,
    pub(super) ours: f64,
    /// The median of the ratios of the rounds.
    pub(super) ratio: Option<f64>,
    /// For the ratio, or for our value if there is none.
    pub(super) goal: Option<f64>,
}

/// The rows of a scenario.
pub(super) fn rows(scenario: &Scenario, samples: &Samples) -> Vec<Row> {
    let mut rows = Vec::new();
    for state in [State::Cold, State::Warm, State::Cut] {
        for way in scenario.ways() {
            let Way::Ours(variant) = way else { continue };
            let goals = (scenario.time_goal(variant, state), scenario.peak_goal(variant, state));
            let title = title(scenario, variant, state);
            let mut add = |quantity, value: &dyn Fn(&Sample) -> Option<f64>, goal| {
                let values = |way| samples.of(way, state).filter_map(value).collect::<Vec<_>>();
                let (theirs, ours) = (values(Way::Own), values(way));
                let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs);
                let ratio = median(ratios.filter(|ratio| ratio.is_finite()).collect());
                let Some(ours) = median(ours) else { return };
                let (case, title) = (scenario.name(), title.clone());
                rows.push(Row { case, title, quantity, theirs: median(theirs), ours, ratio, goal });
            };
            add("time, ms", &|sample| Some(sample.ms), goals.0);
            if scenario.has_output(Way::Own) {
                add("peak, MiB", &|sample| Some(sample.peak_bytes? as f64 / f64::from(1 << 20)), goals.1);
            }
            add("received of the model, MB", &|sample| Some(sample.model_bytes as f64 / 1e6), None);
            if state == State::Cut {
                add("errors", &|sample| Some(sample.errors as f64), Some(0.0));
            }
        }
    }
    rows
}

fn title(scenario: &Scenario, variant: Variant, state: State) -> String {
    let line = match scenario.connection {
        Connection::Loopback => "loopback",
        Connection::Slow => "100 Mb/s",
    };
    let state = match state {
        State::Cold => "cold",
        State::Warm => "warm",
        State::Cut => "one cut connection",
    };
    let variant = match variant {
        Variant::Raw => "raw",
        Variant::F16 => "F16",
        Variant::Lz4 => "LZ4",
        Variant::ByLayer => "by layer",
    };
    format!("{}, {}, {variant}, {line}, {state}", scenario.runtime.title(), scenario.model.title())
}

impl Row {
    /// Whether the goal is met, `None` if there is none.
    fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| self.ratio.unwrap_or(self.ours) <= goal)
    }
}

impl Report {
    pub(super) fn print(&self) {
        let Report { browser, cores, load: [before, after], rounds, rows } = self;
        println!("{browser}, {cores} cores, load {before} to {after}, medians of at most {rounds} rounds\n");
        println!("| case | measure | own loader | weightstream | ratio | goal | |");
        println!("| --- | --- | --- | --- | --- | --- | --- |");
        for row in rows {
            let ratio = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
            let number = |value: f64| format!("{value:.*}", usize::from(value < 100.0 && value.fract() > 0.0));
            let theirs = row.theirs.map_or("–".to_owned(), number);
            let goal = row.goal.map_or("–".to_owned(), |goal| format!("≤ {goal}"));
            let verdict = row.is_met().map_or("", |met| if met { "met" } else { "MISSED" });
            println!(
                "| {} | {} | {theirs} | {} | {} | {goal} | {verdict} |",
                row.title,
                row.quantity,
                number(row.ours),
                ratio(row.ratio),
            );
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, serde_json::to_string_pretty(self)? + "\n")?)
    }
}
