//! Writes the results as a table with goals, and as JSON.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::cases::{Case, TIME, TIME_VS_FLOOR, WASM_MEMORY_BYTES};
use crate::measure::Measured;
use crate::models::PAYLOAD_BYTES;
use crate::scaling::{self, Point};

/// All results of one run.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) browser: String,
    pub(super) cores: usize,
    /// The load average of the last minute before and after the run.
    pub(super) load: [f64; 2],
    pub(super) rounds: usize,
    pub(super) rows: Vec<Row>,
    /// The results of the scaling test.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) scaling: Vec<Point>,
}

/// One line of the table.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) title: String,
    pub(super) quantity: &'static str,
    pub(super) value: f64,
    /// The goal, `None` if there is none.
    pub(super) goal: Option<f64>,
    /// For time ratios, the ratio of the shortest times. `value` is the median ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) best: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plain_ms: Option<f64>,
}

impl Row {
    /// Whether the goal is met, `None` if there is none.
    pub(super) fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| self.value <= goal)
    }
}

/// The rows of a case.
pub(super) fn rows(case: &Case, measured: &Measured) -> Vec<Row> {
    let row = |quantity, value, goal| Row {
        case: case.name.clone(),
        title: case.title.clone(),
        quantity,
        value,
        goal,
        best: None,
        ms: None,
        plain_ms: None,
    };
    let goals = &case.goals;
    let is_load = case.count == PAYLOAD_BYTES;
    let time = row(case.quantity, measured.ratio, goals.ratio);
    let mut rows =
        vec![Row { best: Some(measured.best_ratio), ms: Some(measured.ms), plain_ms: Some(measured.plain_ms), ..time }];
    if is_load {
        let of_payload = |bytes| bytes / PAYLOAD_BYTES as f64;
        rows.extend(
            measured.peak_bytes.map(|peak| row("renderer's peak against the payload", of_payload(peak), goals.peak)),
        );
        let plain = measured.plain_peak_bytes.filter(|_| case.quantity == TIME);
        rows.extend(plain.map(|peak| row("the same of fetch().arrayBuffer()", of_payload(peak), None)));
        let floor = measured.plain_peak_bytes.filter(|_| case.quantity == TIME_VS_FLOOR);
        rows.extend(measured.peak_bytes.zip(floor).map(|(peak, floor)| {
            row(
                "renderer's peak above that of bare reads, against the payload",
                of_payload(peak - floor),
                goals.peak_above,
            )
        }));
    }
    rows.extend(measured.longest_wait_ms.map(|ms| row("longest wait for the page, ms", ms, goals.longest_wait_ms)));
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    if measured.wasm_memory_bytes > 0 {
        let wasm = mebibytes(measured.wasm_memory_bytes);
        let goal = goals.wasm_memory_bytes.unwrap_or(WASM_MEMORY_BYTES);
        rows.push(row("WebAssembly memory, MiB", wasm, Some(mebibytes(goal))));
    }
    rows
}

impl Report {
    pub(super) fn print(&self) {
        let Report { browser, cores, load: [before, after], rounds, rows, scaling } = self;
        println!("{browser}, {cores} cores, load {before} to {after}, medians of {rounds} interleaved rounds\n");
        if !rows.is_empty() {
            println!("| case | measure | median | best | goal | |\n| --- | --- | --- | --- | --- | --- |");
        }
        for row in rows {
            let number = |value: f64| format!("{value:.*}", if value < 10.0 { 2 } else { 0 });
            let times = row.ms.zip(row.plain_ms);
            let times = times.map_or(String::new(), |(ms, plain)| format!(" ({} / {} ms)", number(ms), number(plain)));
            let best = row.best.map_or("–".to_owned(), number);
            let goal = row.goal.map_or("–".to_owned(), |goal| format!("≤ {}", number(goal)));
            let verdict = row.is_met().map_or("", |met| if met { "met" } else { "MISSED" });
            println!(
                "| {} | {} | {}{times} | {best} | {goal} | {verdict} |",
                row.title,
                row.quantity,
                number(row.value)
            );
        }
        if !scaling.is_empty() {
            scaling::print(scaling);
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, serde_json::to_string_pretty(self)? + "\n")?)
    }
}
