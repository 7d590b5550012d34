//! Measures models and indexes whose sizes differ by a factor of a thousand. The cost should grow linearly.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cases::{Case, Goals, TIME_VS_FETCH, tensors};
use crate::measure::Measured;
use crate::models::{self, header_end};

/// The total bytes of the tensors of each model. All models have the same number of tensors.
const PAYLOADS: [u64; 4] = [262_144, 2_621_440, 26_214_400, 262_144_000];

/// The number of tensors of each model. All tensors have the same size.
const COUNTS: [u64; 4] = [100, 1000, 10_000, 100_000];

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Axis {
    /// A load of all tensors, by their total bytes.
    Bytes,
    /// The time from `open` to the list of all tensors, by their number.
    Tensors,
}

/// A case and its position on an axis.
pub(super) struct Scaled {
    pub(super) axis: Axis,
    pub(super) amount: u64,
    pub(super) case: Case,
}

/// The measured times of a case in milliseconds.
#[derive(Serialize)]
pub(super) struct Point {
    pub(super) axis: Axis,
    pub(super) amount: u64,
    pub(super) ms: f64,
    /// The time of plain `fetch()` of the same bytes.
    pub(super) plain_ms: f64,
}

/// All cases. Generates missing models.
pub(super) fn cases(models: &Path) -> Result<Vec<Scaled>> {
    let mut cases = Vec::new();
    for amount in PAYLOADS {
        let file = models::scaled_payload(models, amount)?;
        let against = json!({ "url": format!("/models/{file}") });
        let case = Case { quantity: TIME_VS_FETCH, count: amount, ..case("bytes", amount, "tensors", against) };
        cases.push(Scaled { axis: Axis::Bytes, amount, case });
    }
    for amount in COUNTS {
        let file = models::scaled_index(models, amount as usize)?;
        let end = header_end(&models.join(&file))?;
        let against = json!({ "url": format!("/models/{file}"), "range": [0, end] });
        cases.push(Scaled { axis: Axis::Tensors, amount, case: case("tensors", amount, "list", against) });
    }
    Ok(cases)
}

impl Scaled {
    pub(super) fn point(&self, measured: &Measured) -> Point {
        let Measured { ms, plain_ms, .. } = *measured;
        Point { axis: self.axis, amount: self.amount, ms, plain_ms }
    }
}

fn case(axis: &str, amount: u64, way: &'static str, against: Value) -> Case {
    let case = tensors(&format!("{axis}-{amount}"), &format!("{amount} {axis}"), Value::Null, Goals::default());
    let run = json!({ "url": against.get("url") });
    Case { run: (way, run), against: ("plain", against), quantity: TIME_VS_FETCH, count: amount, ..case }
}

pub(super) fn print(points: &[Point]) {
    println!("\n| growth | amount | ms | relative to 10 × the previous | plain fetch(), ms |");
    println!("| --- | --- | --- | --- | --- |");
    for (point, before) in points.iter().zip(std::iter::once(None).chain(points.iter().map(Some))) {
        let Point { axis, amount, ms, plain_ms } = point;
        let what = match axis {
            Axis::Bytes => "bytes of all tensors",
            Axis::Tensors => "tensors in the index",
        };
        let tenth = before.filter(|before| before.axis == *axis).map(|before| ms / (10.0 * before.ms));
        let tenth = tenth.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
        println!("| {what} | {amount} | {ms:.1} | {tenth} | {plain_ms:.1} |");
    }
}
