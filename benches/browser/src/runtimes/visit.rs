//! Visits of a page that computes with a model, each in a tab of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::profile;
use crate::renderer::Watch;
use e2e::chromium::Chromium;

/// How long a page waits for an output before it starts over. 1 GiB at 100 Mb/s takes 86 s.
const PATIENCE: Duration = Duration::from_secs(150);

/// Includes a page that starts over twice.
const LIMIT: Duration = Duration::from_secs(480);

/// The result of a visit.
#[derive(Clone, Deserialize)]
pub(super) struct Visit {
    /// From the navigation to the first output.
    pub(super) ms: f64,
    /// The errors after which the page started over.
    pub(super) errors: Vec<String>,
    /// The floats of the output. None if the page has failed.
    pub(super) values: BTreeMap<String, Vec<f64>>,
    /// The peak of the renderer's memory above that of an empty page.
    #[serde(skip)]
    pub(super) peak_bytes: Option<u64>,
}

impl Visit {
    /// Visits a page in a new tab, and waits until what it loaded is cached. Prints a profile if there is a path for
    /// it.
    pub(super) fn run(
        browser: &mut Chromium,
        origin: &str,
        app: &str,
        model: &str,
        profile_to: Option<&Path>,
    ) -> Result<Visit> {
        let mut page = browser.new_page()?;
        page.open(&format!("{origin}/bench/index.html"))?;
        let watch = Watch::begin(&mut page)?;
        if profile_to.is_some() {
            profile::begin(&mut page)?;
        }
        let patience = PATIENCE.as_secs();
        page.open(&format!("{origin}/bench/runtimes/index.html?app={app}&model={model}&patience={patience}"))?;
        page.wait_for("the first output", LIMIT, "globalThis.visit")?;
        if let Some(to) = profile_to {
            profile::end(&mut page, &format!("{app}, {model}"), to)?;
            println!("stats of the loader: {}", page.evaluate("globalThis.stats")?);
        }
        let peak_bytes = watch.and_then(|watch| Some(watch.memory()?.grown()));
        let visit: Visit = serde_json::from_value(page.evaluate("visit")?).context("cannot parse the visit")?;
        page.evaluate("settle()")?;
        Ok(Visit { peak_bytes, ..visit })
    }

    /// The smallest cosine of an output and the same output of another visit.
    pub(super) fn similarity(&self, other: &Visit) -> Result<f64> {
        ensure!(self.values.keys().eq(other.values.keys()), "the outputs have other names");
        let mut least = 1.0_f64;
        for (mine, others) in self.values.values().zip(other.values.values()) {
            ensure!(mine.len() == others.len(), "an output has {} values instead of {}", mine.len(), others.len());
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let cosine = dot(mine, others) / (dot(mine, mine) * dot(others, others)).sqrt();
            ensure!(cosine.is_finite(), "an output has no direction");
            least = least.min(cosine);
        }
        Ok(least)
    }
}
